"""The networks, in JAX.  Each is applied to every worker alike, so that one fits any number of workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jars_and_apps.key_split.baselines.policy import BOUND, FEATURES

Array = Any  # jax.Array: JAX is not there where types are checked
Layers = list[tuple[Array, Array]]
Parameters = Mapping[str, Layers]
ACTOR = (FEATURES, 16, 16)
CRITIC_EACH, CRITIC_ALL = (FEATURES + 1, 32, 32), (64, 32, 1)
CRITICS = 2
LEAST_LOG, MOST_LOG = -5.0, 0.0  # of the standard deviation


def layers(key: Array, widths: Sequence[int]) -> Layers:
    """Layers with weights by He's rule."""
    keys = jax.random.split(key, len(widths) - 1)
    return [
        (jax.random.normal(each, (low, high)) * jnp.sqrt(2 / low), jnp.zeros(high))
        for each, low, high in zip(keys, widths[:-1], widths[1:], strict=True)
    ]


def actor(key: Array) -> dict[str, Layers]:
    """An actor: a trunk, and heads for the mean and for the logarithm of the standard deviation."""
    keys = jax.random.split(key, 3)
    trunk, mean, deviation = layers(keys[0], ACTOR), layers(keys[1], (16, 1)), layers(keys[2], (16, 1))
    small = [[(matrix * 0.1, bias) for matrix, bias in each] for each in (mean, deviation)]
    return {"trunk": trunk, "mean": small[0], "deviation": small[1]}


def critics(key: Array) -> Any:
    """Two critics, their weights stacked."""
    return jax.vmap(_critic)(jax.random.split(key, CRITICS))


def _critic(key: Array) -> dict[str, Layers]:
    one, other = jax.random.split(key)
    return {"each": layers(one, CRITIC_EACH), "all": layers(other, CRITIC_ALL)}


def perceptron(network: Layers, values: Array) -> Array:
    """The output of fully connected layers."""
    for matrix, bias in network[:-1]:
        values = jax.nn.relu(values @ matrix + bias)
    matrix, bias = network[-1]
    return values @ matrix + bias


def normal(network: Parameters, features: Array) -> tuple[Array, Array]:
    """Mean and logarithm of the standard deviation of each worker's output, before the bound."""
    hidden = jax.nn.relu(perceptron(network["trunk"], features))
    deviation = perceptron(network["deviation"], hidden)[..., 0]
    middle, half = (MOST_LOG + LEAST_LOG) / 2, (MOST_LOG - LEAST_LOG) / 2
    return perceptron(network["mean"], hidden)[..., 0], middle + half * jnp.tanh(deviation)


def log_shares(outputs: Array) -> Array:
    """The logarithms of the shares over their mean."""
    return jax.nn.log_softmax(outputs, axis=-1) + jnp.log(outputs.shape[-1])


def values(network: Any, features: Array, shares: Array) -> Array:
    """The values by each critic (critics, steps) of shares, given as logarithms over their mean."""
    inputs = jnp.concatenate([features, jnp.clip(shares, -4.5, 4.5)[..., None]], axis=-1)
    return jax.vmap(_value, in_axes=(0, None))(network, inputs)


def _value(network: Parameters, inputs: Array) -> Array:
    each = jax.nn.relu(perceptron(network["each"], inputs))
    pooled = jnp.concatenate([each.mean(axis=-2), each.max(axis=-2)], axis=-1)
    return perceptron(network["all"], pooled)[..., 0]


def sample(network: Parameters, features: Array, key: Array) -> tuple[Array, Array]:
    """Outputs drawn for each worker, within the bound, and the logarithm of their density (steps)."""
    mean, deviation = normal(network, features)
    drawn = mean + jnp.exp(deviation) * jax.random.normal(key, mean.shape)
    return BOUND * jnp.tanh(drawn), density(mean, deviation, drawn)


def density(mean: Array, deviation: Array, drawn: Array) -> Array:
    """The logarithm of the density of ``BOUND * tanh(drawn)``, summed over the workers."""
    each = -0.5 * ((drawn - mean) / jnp.exp(deviation)) ** 2 - deviation - 0.5 * jnp.log(2 * jnp.pi)
    slope = jnp.log(BOUND) + 2 * (jnp.log(2.0) - drawn - jax.nn.softplus(-2 * drawn))
    return jnp.sum(each - slope, axis=-1)
