"""A client of the text-generation entry over gRPC streams, one request per stream."""

import queue
from dataclasses import dataclass

import numpy as np
import tritonclient.grpc as grpc

_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Piece:
    """One response."""

    text: str
    finish_reason: str
    output_tokens: int
    is_final: bool


class Generation:
    """A request on a stream of its own; `cancel` breaks it off."""

    def __init__(
        self, address: str, text: str, max_tokens: int = 200, stop_words=(b"\n\n",), stream: bool | None = True
    ) -> None:
        self._client = grpc.InferenceServerClient(address)
        self._responses: queue.SimpleQueue = queue.SimpleQueue()
        self._client.start_stream(lambda result, error: self._responses.put((result, error)))
        inputs = [tensor("text_input", "BYTES", [text.encode()]), tensor("max_tokens", "INT32", [max_tokens])]
        if stop_words is not None:
            inputs.append(tensor("stop_words", "BYTES", list(stop_words)))
        if stream is not None:
            inputs.append(tensor("stream", "BOOL", [stream]))
        self._client.async_stream_infer("agent", inputs)

    def next_piece(self) -> Piece:
        """Waits for the next response and raises its error, if it is one."""
        result, error = self._responses.get(timeout=_TIMEOUT_SECONDS)
        if error is not None:
            raise error
        final = result.get_response().parameters.get("triton_final_response")
        return Piece(
            text=result.as_numpy("text_output")[0].decode(),
            finish_reason=result.as_numpy("finish_reason")[0].decode(),
            output_tokens=int(result.as_numpy("output_tokens")[0]),
            is_final=bool(final and final.bool_param),
        )

    def pieces(self) -> list[Piece]:
        """Waits for all responses, or raises the error that ends them; then closes the stream."""
        try:
            pieces = [self.next_piece()]
            while not pieces[-1].is_final:
                pieces.append(self.next_piece())
            return pieces
        finally:
            self._client.stop_stream()
            self._client.close()

    def text(self) -> str:
        """Waits for all responses and returns the whole text."""
        return "".join(piece.text for piece in self.pieces())

    def cancel(self) -> None:
        """Breaks the stream off."""
        self._client.stop_stream(cancel_requests=True)
        self._client.close()


def tensor(name: str, datatype: str, values: list) -> grpc.InferInput:
    """Builds an input without a batch dimension."""
    dtype = {"BYTES": np.object_, "INT32": np.int32, "BOOL": np.bool_}[datatype]
    value = grpc.InferInput(name, [len(values)], datatype)
    value.set_data_from_numpy(np.array(values, dtype))
    return value
