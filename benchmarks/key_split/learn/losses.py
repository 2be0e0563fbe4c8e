"""The losses of soft actor-critic, and of conservative Q-learning, which adds a term to them.

SAC: Haarnoja et al., *Soft Actor-Critic Algorithms and Applications*, 2018.  CQL: Kumar et al.,
*Conservative Q-Learning for Offline Reinforcement Learning*, NeurIPS 2020, equation 4 (the form CQL(H)).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from benchmarks.key_split.learn import networks
from jars_and_apps.key_split.baselines.policy import BOUND

Array = Any  # jax.Array: JAX is not there where types are checked
DRAWS = 2  # actions of each kind for the conservative term


class Batch(NamedTuple):
    """Steps of splits of one number of workers; see :class:`~benchmarks.key_split.learn.steps.Steps`."""

    features: Array
    shares: Array
    rewards: Array
    following: Array


def targets(actor: Any, target: Any, alpha: Array, batch: Batch, gamma: float, key: Array) -> Array:
    """The values (steps) that the critics are to have."""
    outputs, density = networks.sample(actor, batch.following, key)
    values = networks.values(target, batch.following, networks.log_shares(outputs)).min(axis=0)
    return batch.rewards + gamma * (values - alpha * density)


def critic_loss(critics: Any, batch: Batch, aims: Array) -> Array:
    """The mean squared error of both critics."""
    found = networks.values(critics, batch.features, batch.shares)
    return jnp.mean((found - aims) ** 2)


def conservative_loss(critics: Any, actor: Any, batch: Batch, key: Array) -> Array:
    """The values of actions that are not in the data, by a soft maximum, less those that are."""
    keys = jax.random.split(key, 2 * DRAWS)
    shape = batch.features.shape[:-1]
    found = []
    for each in keys[:DRAWS]:
        outputs, density = networks.sample(actor, batch.features, each)
        found.append(_values(critics, batch, outputs) - jax.lax.stop_gradient(density))
    for each in keys[DRAWS:]:
        outputs = jax.random.uniform(each, shape, minval=-BOUND, maxval=BOUND)
        found.append(_values(critics, batch, outputs) + shape[-1] * jnp.log(2 * BOUND))
    soft = jax.nn.logsumexp(jnp.stack(found), axis=0) - jnp.log(2 * DRAWS)
    return jnp.mean(soft - networks.values(critics, batch.features, batch.shares))


def actor_loss(actor: Any, critics: Any, alpha: Array, batch: Batch, key: Array) -> tuple[Array, Array]:
    """The loss of the actor, and the mean logarithm of the density of its actions."""
    outputs, density = networks.sample(actor, batch.features, key)
    values = networks.values(critics, batch.features, networks.log_shares(outputs)).min(axis=0)
    return jnp.mean(alpha * density - values), jnp.mean(density)


def cloning_loss(actor: Any, batch: Batch) -> Array:
    """The negative mean logarithm of the density of the data's actions, a worker."""
    mean, deviation = networks.normal(actor, batch.features)
    drawn = jnp.arctanh(jnp.clip(batch.shares / BOUND, -0.99, 0.99))
    return -jnp.mean(networks.density(mean, deviation, drawn)) / batch.shares.shape[-1]


def _values(critics: Any, batch: Batch, outputs: Array) -> Array:
    return networks.values(critics, batch.features, networks.log_shares(outputs))
