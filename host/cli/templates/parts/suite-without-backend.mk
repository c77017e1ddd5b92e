	# What is promised whatever the backend is.
	$(EPO) provider test $(COMPONENT) --entry deploy/{{name}}.yaml --only profile-is-known \
	  --only config-faults-are-all-told --only create-honours-placement --only unknown-place-is-refused \
	  --only user-data-stays-inside
