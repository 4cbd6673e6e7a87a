"""Peak memory of verl's training and sampling on one of its GPUs, part by part."""

from dph.recipe import Recipe
from dph.runs.memory import Load, MemoryEstimate, ModelShape, activations

_OF_A_LOGIT = 10
"""Bytes of a logit in verl's log-probs by torch, measured: in bfloat16, its row in float32, and the
gradients. flash-attn's cross entropy, if installed, takes less than half."""


def estimate_per_gpu(
    recipe: Recipe, shape: ModelShape, load: Load, *, cuda: bool = False, gpu: float = 0.0
) -> MemoryEstimate:
    """The memory of each GPU, without the libraries and the CUDA graphs of vLLM.

    Computed as: weights, gradients and AdamW's states in float32, shared by all GPUs (FSDP2);
    activations of the largest micro-batch, with logits of all its tokens. Gathered for a moment:
    embeddings, the output layer, a layer, the next, and a gradient. States stay while vLLM samples.
    """
    recipe = recipe.on_device(cuda=cuda)
    gpus = recipe.verl.nodes * recipe.verl.gpus
    narrow = recipe.model.dtype == "bfloat16"
    width, layer = 2 if narrow else 4, shape.matrices / shape.layers
    if narrow:  # FSDP narrows the weights, and so the activations between layers
        model = recipe.model.model_copy(update={"weights": "bfloat16"})
        recipe = recipe.model_copy(update={"model": model})
    share = shape.parameters / gpus
    logits = float(load.apart * shape.vocabulary * _OF_A_LOGIT)
    whole = shape.parameters - shape.matrices + 2 * layer
    kept = activations(recipe, shape, load.apart, logits)
    return MemoryEstimate(
        gpus=gpus,
        weights=4 * share,
        gradients=4 * share,
        optimizer=8 * share,
        activations=kept,
        activations_apart=kept,
        gathered=width * whole + (width + 4) * layer,
        step=4 * share,  # AdamW for each weight: the root of its second moment
        cache=0.0,
        logits=0.0,
        vllm=recipe.vllm.memory * gpu,
        several=True,
        head=0.0,
    )
