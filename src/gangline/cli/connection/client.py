"""From the options of a command to a client."""

from dataclasses import replace

import click

from gangline.cli.terminal import say
from gangline.sdk import Client
from gangline.settings import Settings


def chosen_settings(ctx: click.Context) -> Settings:
    """Return the settings as the options of the command overrule them.

    ``context`` is empty unless the command uses a cluster; if it does, ``tenant`` is the context's namespace.
    """
    settings = Settings.load()
    chosen = ctx.find_root().obj or {}
    context = chosen.get("context")
    if chosen.get("server"):
        if context:
            raise click.UsageError("--context and --server are two different services", ctx)
        return replace(settings, context="")
    context = settings.context if context is None else context
    if not context:
        return replace(settings, context="")
    from gangline.sdk.login.logins import find_login

    if (login := find_login(settings, context)) is not None:
        return replace(settings, context=context, tenant=login.tenant or settings.tenant)
    # Only a cluster needs what reads kubeconfigs.
    from gangline.compose.contexts import namespace_of

    return replace(settings, context=context, tenant=namespace_of(context))


def connect(ctx: click.Context, *, tenant: str | None = None) -> Client:
    """Return a client for the service that the options name: the user's own, started when needed, by default."""
    root = ctx.find_root()
    chosen = root.obj or {}
    settings = chosen_settings(ctx)
    tenant = tenant or chosen.get("tenant")
    if settings.context:
        return _cluster_client(root, settings, tenant or settings.tenant)
    return Client(chosen.get("server"), tenant=tenant, settings=settings, say=say)


def chosen_context(ctx: click.Context, given: str | None = None) -> str:
    """Return the context that a command about a cluster means; empty for the kubeconfig's current one."""
    context = given or (ctx.find_root().obj or {}).get("context") or Settings.load().context
    ctx.meta["gangline context"] = context
    return context


def spoken(ctx: click.Context, *words: str, tenant: str) -> str:
    """Write a command that the user may give next, for the same service, about something of that tenant."""
    context = (ctx.find_root().obj or {}).get("context")
    options = ["--context", context] if context else []
    if tenant != chosen_settings(ctx).tenant:
        options += ["--tenant", tenant]
    return " ".join(("gangline", *options, *words))


def _cluster_client(root: click.Context, settings: Settings, tenant: str) -> Client:
    """Return the one client of this command for a tenant of a cluster; it ends with the command."""
    clients: dict[str, Client] = root.meta.setdefault("gangline clients", {})
    if tenant not in clients:
        clients[tenant] = Client(context=settings.context, tenant=tenant, settings=settings, say=say)
        root.call_on_close(clients[tenant].close)
        root.meta["gangline context"] = settings.context
    return clients[tenant]
