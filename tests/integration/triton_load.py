"""Asks a model with Triton's client until its input ends: python triton_load.py ROUTER AUTHORITY MODEL.

Prints a line when the first answer has come, and the answers counted at the end. What fails ends it.
"""

import collections
import sys
import threading

import numpy as np
import tritonclient.grpc

address, authority, model = sys.argv[1:]
client = tritonclient.grpc.InferenceServerClient(address, channel_args=[("grpc.default_authority", authority)])
stopped = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stopped.set()), daemon=True).start()
tensor = tritonclient.grpc.InferInput("x", [1], "FP32")
tensor.set_data_from_numpy(np.ones(1, np.float32))
answers = collections.Counter()
while not stopped.is_set():
    answers[int(client.infer(model, [tensor]).as_numpy("y")[0])] += 1
    if answers.total() == 1:
        print("answered", flush=True)
    stopped.wait(0.01)
print(dict(answers), flush=True)
