"""The router: leads requests to the replicas of services as a routing table says (``python -m gangline.router``).

One process with one event loop. It knows the table (``gangline.model.routing``) and nothing else of the platform: who
writes the table decides what exists, and the router decides, request by request, who answers.
"""
