"""Egress proxies as Pods that run Squid, each with a ConfigMap that holds its configuration."""
