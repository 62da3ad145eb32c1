"""``multipool serve``: an adaptive model behind HTTP."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from multipool.cli import options as o
from multipool.cli.console import say
from multipool.methods import METHODS

try:
    from multipool.serve.card import ModelCard
    from multipool.serve.make import AdapterMaker, Recipe
    from multipool.serve.model import ModelChoice, read_model
    from multipool.serve.server import Listening, local_service, ray_service, run
    from multipool.serve.settings import MIB, Limits, Serving, default_lanes
except ImportError as error:
    raise ValueError(
        f"multipool serve needs {error.name}; install it with pip install 'multipool[serve]'"
    ) from None

app = typer.Typer(add_completion=False)

EXAMPLE = "Example: multipool serve --state-dir streams --port 8080"


def _o(metavar: str, text: str) -> Any:  # noqa: ANN401
    return typer.Option(metavar=metavar, help=text)


_METHOD = f"One of: {', '.join(METHODS)}."
_Method = Annotated[str, typer.Option(metavar="NAME", help=_METHOD)]
_Memory = Annotated[str | None, typer.Option(metavar="NAME", help="Memory of the method.")]
_SET = "A hyperparameter of the method, or memory.KEY=VALUE; repeatable."
_Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=_SET)]
_LogRequests = Annotated[bool, typer.Option("--log-requests", help="Log every request.")]
_Model = Annotated[str | None, _o("NAME", "Architecture of --weights, or a hub's model.")]
_Weights = Annotated[str | None, _o("FILE", "File of weights; left out: the model in the package.")]
_ImageSize = Annotated[int | None, _o("N", "Side of the model's images, where it does not say.")]
_Classes = Annotated[Path | None, _o("FILE", "Names of the classes, one a line.")]
_Name = Annotated[str | None, _o("NAME", "Name of the model in addresses.")]
_Decode = Annotated[str | None, _o("NAME", "sequence or none; left out: the method's own.")]
_Source = Annotated[Path | None, _o("FILE", "Source statistics, for methods that need them.")]
_StateDir = Annotated[Path, _o("DIR", "Where streams are kept.")]
_Host = Annotated[str, _o("ADDRESS", "Another than this machine's needs --token-file.")]
_Port = Annotated[int, _o("N", "Port to listen on.")]
_TokenFile = Annotated[Path | None, _o("FILE", "Clients must show the token in it.")]
_MaxBatch = Annotated[int, _o("N", "Images that waiting requests of one stream are joined to.")]
_MaxWait = Annotated[float, _o("MS", "How long a request waits for others of its stream.")]
_SaveEvery = Annotated[float, _o("SECONDS", "What was learned is on the disk before it is so old.")]
_Resident = Annotated[int, _o("N", "Streams in memory; the others rest on the disk.")]
_ResidentMib = Annotated[int, _o("N", "Memory in MiB that these may take together.")]
_Ray = Annotated[str | None, _o("ADDRESS", "Compute on a Ray cluster, an actor a stream; or auto.")]
_MaxStreams = Annotated[int, _o("N", "Streams known at a time.")]
_MaxQueue = Annotated[int, _o("N", "Requests waiting in one stream.")]
_MaxRate = Annotated[float, _o("N", "Requests a second of one stream; 0: any number.")]
_MaxPending = Annotated[int, _o("N", "Requests waiting in all streams.")]
_MaxBody = Annotated[int, _o("N", "Size of a request in MiB.")]
_Lanes = Annotated[int | None, _o("N", "Threads that compute; left out: one a core, up to 4.")]


@app.command(epilog=EXAMPLE)
def main(
    model: _Model = None,
    weights: _Weights = None,
    image_size: _ImageSize = None,
    classes: _Classes = None,
    name: _Name = None,
    method: _Method = "multipool",
    memory: _Memory = None,
    decode: _Decode = None,
    source: _Source = None,
    set_: _Set = None,
    device: o.Device = "auto",
    precision: o.Precision = "auto",
    seed: o.Seed = 0,
    state_dir: _StateDir = Path("multipool-serve"),
    host: _Host = "127.0.0.1",
    port: _Port = 8080,
    token_file: _TokenFile = None,
    max_batch: _MaxBatch = Serving.max_batch,
    max_wait_ms: _MaxWait = Serving.max_wait_ms,
    save_every: _SaveEvery = Serving.save_every,
    resident: _Resident = Serving.resident,
    resident_mib: _ResidentMib = Serving.resident_mib,
    max_streams: _MaxStreams = Limits.max_streams,
    max_queue: _MaxQueue = Limits.max_queue,
    max_rate: _MaxRate = Limits.max_rate,
    max_pending: _MaxPending = Limits.max_pending,
    max_body_mib: _MaxBody = Limits.max_body // MIB,
    lanes: _Lanes = None,
    ray: _Ray = None,
    log_requests: _LogRequests = False,
) -> None:
    """Serve a model that adapts to each of its streams, until SIGTERM or SIGINT.

    Open Inference Protocol version 2 under /v2, pictures at /predict, Prometheus at /metrics.
    Streams are saved in --state-dir and go on from there after a restart.
    """
    options, memory_options = o.split_settings(set_)
    recipe = Recipe(method, memory, options, memory_options, decode, seed)
    listening = Listening(host, port, token_file, log_requests)
    if max_body_mib < 1:
        raise ValueError(f"--max-body-mib must be at least 1, got {max_body_mib}")
    listening.access()  # that it cannot listen is said before anything is loaded
    choice = ModelChoice(model, weights, image_size, classes, name, precision, device)
    network, card = read_model(choice, method)
    serving = Serving(
        state_dir=state_dir,
        max_batch=max_batch,
        max_wait_ms=max_wait_ms,
        save_every=save_every,
        resident=resident,
        resident_mib=resident_mib,
        lanes=default_lanes(str(network.device())) if lanes is None else lanes,
        limits=Limits(
            max_body=max_body_mib * MIB,
            max_streams=max_streams,
            max_queue=max_queue,
            max_rate=max_rate,
            max_pending=max_pending,
        ),
    )
    maker = AdapterMaker(network, recipe, None if source is None else str(source))
    service = local_service(maker, serving) if ray is None else ray_service(maker, serving, ray)
    with listening.bind() as bound:
        listening = replace(listening, port=bound.getsockname()[1])  # 0: the system has chosen one
        say(what_to_try(card, listening, state_dir))
        run(service, card, listening, bound)


def what_to_try(card: ModelCard, listening: Listening, state_dir: Path) -> str:
    """Return what a new user types next."""
    host = "localhost" if listening.host in ("127.0.0.1", "::1") else listening.host
    base = f"http://{host}:{listening.port}"
    token = " -H 'Authorization: Bearer TOKEN'" if listening.token_file is not None else ""
    return "\n".join(
        [
            f"serving {card.name} with {card.method} at {base}, streams kept in {state_dir}; try:",
            f"  {base}/ in a browser",
            f"  curl{token} {base}/v2/models/{card.name}",
            f"  curl{token} --data-binary @picture.png '{base}/predict?stream=camera-1'",
            f"  curl{token} -F image=@picture.jpg '{base}/predict?stream=camera-1&top=3'",
            f"  curl{token} {base}/api/streams",
            f"  curl{token} {base}/metrics",
        ]
    )
