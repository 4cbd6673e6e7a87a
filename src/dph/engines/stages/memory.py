"""Peak memory of training and sampling with verl on one GPU, by component."""

from dph.recipe import Recipe
from dph.runs.memory import Load, MemoryEstimate, ModelShape, activations

_BYTES_PER_LOGIT = 10
"""Measured bytes per logit when torch computes verl's log-probs: the logit in bfloat16, its row in
float32, and the gradients. flash-attn's cross-entropy, if installed, takes less than half."""


def estimate_per_gpu(
    recipe: Recipe, shape: ModelShape, load: Load, *, cuda: bool = False, gpu: float = 0.0
) -> MemoryEstimate:
    """Memory per GPU, excluding libraries and vLLM's CUDA graphs.

    Computed as: weights, gradients and AdamW states in float32, sharded across all GPUs (FSDP2);
    activations of the largest micro-batch, with logits for all its tokens. Gathered temporarily:
    embeddings, the output layer, two consecutive layers, and a gradient. The sharded states stay
    on the GPU while vLLM samples.
    """
    recipe = recipe.on_device(cuda=cuda)
    gpus = recipe.verl.nodes * recipe.verl.gpus
    bfloat16 = recipe.model.dtype == "bfloat16"
    width, layer = 2 if bfloat16 else 4, shape.matrices / shape.layers
    if bfloat16:  # FSDP casts the weights, and so the activations between layers, to bfloat16
        model = recipe.model.model_copy(update={"weights": "bfloat16"})
        recipe = recipe.model_copy(update={"model": model})
    share = shape.parameters / gpus
    logits = float(load.apart * shape.vocabulary * _BYTES_PER_LOGIT)
    whole = shape.parameters - shape.matrices + 2 * layer
    activation_bytes = activations(recipe, shape, load.apart, logits)
    return MemoryEstimate(
        gpus=gpus,
        weights=4 * share,
        gradients=4 * share,
        optimizer=8 * share,
        activations=activation_bytes,
        activations_apart=activation_bytes,
        gathered=width * whole + (width + 4) * layer,
        step=4 * share,  # AdamW: the square root of each weight's second moment
        cache=0.0,
        logits=0.0,
        vllm=recipe.vllm.memory * gpu,
        several=True,
        head=0.0,
    )
