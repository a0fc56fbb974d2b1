"""The run, put together: these imports are all that Locust loads.

``locust`` in this folder opens the web page; ``locust --headless --host http://127.0.0.1:8000
--shape ladder`` ramps without one. The README shows the three ways in.
"""

import sys
from pathlib import Path

from locust import events

# Workers may be started from anywhere; our packages lie beside this file.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from hooks.install import install
from users.chat_user import BlockingChatUser, SdkChatUser, StreamingChatUser
from users.open_loop import OpenLoopUser
from workloads.traffic import TrafficKind

# Locust looks for the classes of a run's users among this file's names.
__all__ = ["BlockingChatUser", "OpenLoopUser", "SdkChatUser", "StreamingChatUser"]

install(
    events,
    {
        TrafficKind.STREAM: StreamingChatUser,
        TrafficKind.BLOCK: BlockingChatUser,
        TrafficKind.SDK: SdkChatUser,
    },
)
