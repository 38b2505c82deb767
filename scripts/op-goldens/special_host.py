"""HostCall: what is refused. What it gives depends on the program that runs it: executor/tests/host.rs.

Needs torch and safetensors.
"""

from common import bad, fault, rand, write

OP = "HostCall"
FIELDS = {"function": '"resample"', "dtype": "f32", "shape": "[-1, 2]"}

bad(OP, FIELDS | {"function": "resample"}, ["f32[3]"], "`function`: `resample` is not a text in quotes")
bad(OP, FIELDS | {"function": '""'}, ["f32[3]"], "the text is empty")
bad(OP, FIELDS | {"function": '"' + 257 * "n" + '"'}, ["f32[3]"], "257 bytes, at most 256")
bad(OP, FIELDS | {"function": '"a" b"'}, ["f32[3]"], "more after the closing quote")
bad(OP, FIELDS | {"function": '"a'}, ["f32[3]"], "does not close")
bad(OP, FIELDS | {"dtype": "q8"}, ["f32[3]"], "dtype is q8, an encoding of weights")
bad(OP, FIELDS | {"shape": "[-2]"}, ["f32[3]"], "shape has the size -2")
bad(OP, FIELDS | {"shape": str([1] * 17)}, ["f32[3]"], "shape has 17 dimensions")
fault(OP, "unregistered", FIELDS, {"x": rand(3)}, 'a call of the unregistered function "resample"')

write()
