"""The tool of the engine benchmarks, and as a program a worker of the engine's own whose job does as little.

python -m benchmarks.engine_worker URL CONCURRENCY
"""

import asyncio
import sys
from typing import Any
from uuid import uuid4

from spindle import tool

BARE = "bare"
"""The queue and the name of the engine's own jobs."""
POLL_SECONDS = 0.2
"""How often a worker of DBOS looks into its queue, with us and without."""


@tool(idempotent=True)  # on a starved machine a call may be handed out twice, which would end it as interrupted
async def do_nothing(n: int) -> str:
    """Do nothing."""
    return str(n)


tools = [do_nothing]


async def work_for_temporal(url: str, concurrency: int) -> None:
    from temporalio import activity
    from temporalio.client import Client
    from temporalio.worker import Worker

    @activity.defn(name=BARE)
    async def bare(message: dict[str, Any]) -> dict[str, Any]:
        return message

    client = await Client.connect(url.partition("://")[2])
    async with Worker(client, task_queue=BARE, activities=[bare], max_concurrent_activities=concurrency):
        print("ready", flush=True)
        await asyncio.Event().wait()


async def work_for_dbos(url: str, concurrency: int) -> None:
    import dbos

    async def bare(message: dict[str, Any]) -> dict[str, Any]:
        async def do() -> dict[str, Any]:
            return message

        return await dbos.DBOS.run_step_async({"name": "do"}, do)

    dbos.DBOS(
        config={
            "name": "spindle",
            "system_database_url": url.removeprefix("dbos+"),
            "executor_id": uuid4().hex,
            "application_version": BARE,
            "serializer": dbos.DBOSPortableJSONSerializer(),
            "log_level": "ERROR",
        }
    )
    dbos.DBOS.workflow(name=BARE)(bare)
    dbos.DBOS.listen_queues([BARE])
    dbos.DBOS.launch()
    await dbos.DBOS.register_queue_async(
        BARE, worker_concurrency=concurrency, polling_interval_sec=POLL_SECONDS, on_conflict="always_update"
    )
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    address, most = sys.argv[1], int(sys.argv[2])
    asyncio.run((work_for_temporal if address.startswith("temporal:") else work_for_dbos)(address, most))
