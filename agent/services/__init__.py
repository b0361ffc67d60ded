"""What serving stacks say themselves: /metrics of vLLM, Triton and TGI, read into `service_samples`."""

from agent.services.declared import Service, declared_services
from agent.services.fetch import fetch
from agent.services.owner import Owners
from agent.services.source import ServiceSource

__all__ = ["Owners", "Service", "ServiceSource", "declared_services", "fetch"]
