"""TransferQueue's key-value interface in a dictionary, as far as the integration uses it."""

from tensordict import NonTensorStack, TensorDict
from torch import Tensor

from dph.engines.verl.rows import jagged


class FakeQueue:
    def __init__(self):
        self.rows = {}
        self.most = 0

    def kv_batch_put(self, *, keys, partition_id, fields=None, tags=None):  # noqa: ARG002
        for index, key in enumerate(keys):
            row = self.rows.setdefault((partition_id, key), {})
            names = () if fields is None else fields.keys()
            row.update({name: fields[name][index] for name in names})
        self.most = max(self.most, len(self.rows))

    def kv_batch_get(self, *, keys, partition_id, select_fields):
        columns = {
            name: _column([self.rows[partition_id, key][name] for key in keys])
            for name in select_fields
        }
        return TensorDict(columns, batch_size=len(keys))

    def kv_clear(self, *, keys, partition_id):
        for key in keys:
            del self.rows[partition_id, key]


def _column(values):
    return jagged(values) if isinstance(values[0], Tensor) else NonTensorStack(*values)
