	$(EPO) provider test $(COMPONENT) --entry deploy/{{name}}.yaml
