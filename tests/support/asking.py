"""One user's requests without Locust's runner: settings, context and transport put together."""

import contextlib

from gevent.event import Event

from options import OPTION_NAMES, add_arguments
from settings import Settings
from users.asking import Wish, ask
from users.masking import Masker
from users.retry_policy import retry_policy
from users.run_context import RunContext
from users.secrets import load_secrets
from users.slots import Slots
from users.transports import open_transports
from workloads.chat_body import encode_chat
from workloads.prompts import Message, Prompt, PromptPlan
from workloads.retry_budget import RetryBudget
from workloads.traffic import TrafficKind


class _Defaults:
    """Stands where Locust's parser stands, and keeps only the defaults."""

    def __init__(self):
        self.values = {}

    def add_argument_group(self, title, description=None):
        return self

    def add_argument(self, flag, *, default, **_):
        self.values[flag[2:].replace("-", "_")] = default
        return self


def make_settings(host, **options):
    """Settings with our defaults but for the given options."""
    defaults = _Defaults()
    add_arguments(defaults)
    values = {name: defaults.values.get(name) for name in OPTION_NAMES}
    return Settings.from_options({**values, "host": host, **options}, read_file=_no_file)


def _no_file(path):
    raise FileNotFoundError(path)


class Asker:
    """A user that asks when it is told to."""

    def __init__(self, settings, environ=None):
        self.settings = settings
        self.kind = settings.traffic[0].kind
        secrets = load_secrets(settings, environ or {})
        self.transports = open_transports(settings, secrets)
        plan = PromptPlan.build(
            prefixes=0,
            prefix_tokens=0,
            prompt_tokens=settings.prompt_tokens,
            salt="test",
            seed=None,
        )
        self.context = RunContext(
            run_id="run",
            worker="local",
            worker_index=0,
            settings=settings,
            model="case-model",
            include_usage=settings.include_usage,
            plan=plan,
            transports=self.transports,
            masker=Masker(secrets.texts),
            retry_policy=retry_policy(settings),
            retry_budget=RetryBudget(settings.retrying.budget_ratio),
            slots=Slots(settings.max_in_flight) if settings.max_in_flight else None,
        )
        self.leaving = Event()

    def ask(self, text="hello", max_tokens=64, leave_after_s=None):
        """One logical request; its ``Answer``."""
        streams = self.kind is not TrafficKind.BLOCK
        prompt = Prompt("p", None, (Message("user", text),), 1)
        body = encode_chat(
            prompt,
            model="case-model",
            max_tokens=max_tokens,
            max_tokens_field=self.settings.max_tokens_field,
            stream=streams,
            include_usage=self.context.include_usage,
            ignore_eos=False,
            temperature=None,
            extra_body=self.settings.extra_body,
        )
        wish = Wish(
            user=0,
            user_class="TestUser",
            prompt=prompt,
            body=body,
            stream=streams,
            asked_max_tokens=max_tokens,
            think_s=0.0,
            leave_after_s=leave_after_s,
            leaving=self.leaving,
        )
        return ask(self.context, self.transports[self.kind], wish)


@contextlib.contextmanager
def asker(host, environ=None, **options):
    """An :class:`Asker` whose connections are closed at the end."""
    one = Asker(make_settings(host, **options), environ)
    try:
        yield one
    finally:
        for transport in one.transports.values():
            transport.close()
