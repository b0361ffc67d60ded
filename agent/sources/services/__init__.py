"""What serving stacks say themselves: /metrics of vLLM, Triton and TGI, read into `service_samples`."""

from agent.sources.services.declared import Service, declared_services
from agent.sources.services.fetch import fetch
from agent.sources.services.owner import Owners
from agent.sources.services.source import ServiceSource

__all__ = ["Owners", "Service", "ServiceSource", "declared_services", "fetch"]
