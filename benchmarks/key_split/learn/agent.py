"""The agent: actor, critics and temperature, and a step of gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from benchmarks.key_split.learn import losses, networks
from benchmarks.key_split.learn.losses import Batch
from jars_and_apps.key_split.baselines.policy import BOUND

Array = Any  # jax.Array: JAX is not there where types are checked
Layers = tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...]


@dataclass(frozen=True)
class Rates:
    """The parameters of training.  ``entropy``: the aim for that of the actions, a worker."""

    gamma: float = 0.9
    rate: float = 5e-4
    tau: float = 0.005
    alpha: float = 0.01
    entropy: float = -2.5
    conservative: float = 0.05
    batch: int = 64


class State(NamedTuple):
    """Everything that training changes."""

    actor: Any
    critics: Any
    target: Any
    alpha: Array
    """The logarithm of the temperature."""
    moments: tuple[Any, Any, Any]
    key: Array


class Agent:
    """Trains by batches of steps."""

    def __init__(self, rates: Rates, seed: int) -> None:
        self.rates = rates
        keys = jax.random.split(jax.random.key(seed), 3)
        actor, critics = networks.actor(keys[0]), networks.critics(keys[1])
        alpha = jnp.log(jnp.float32(rates.alpha))
        moments = tuple(map(optax.adam(rates.rate).init, (actor, critics, alpha)))
        self.state = State(actor, critics, critics, alpha, moments, keys[2])

    def clone(self, batch: Batch) -> float:
        """Move the actor towards the actions of the data; the loss."""
        self.state, loss = _clone(self.state, batch, rates=self.rates)
        return float(loss)

    def learn(self, batch: Batch, *, conservative: bool) -> None:
        """Make a step of SAC; ``conservative``: of CQL."""
        self.state = _step(self.state, batch, rates=self.rates, conservative=conservative)

    def act(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """The shares that are drawn for these features."""
        key, drawing = jax.random.split(self.state.key)
        self.state = self.state._replace(key=key)
        outputs = np.asarray(_draw(self.state.actor, features, drawing)[0], np.float64)
        return np.asarray(np.exp(outputs) / np.exp(outputs).sum(axis=-1, keepdims=True))

    def expected(self, features: NDArray[np.float32]) -> list[float]:
        """The shares of these features (workers, 4) without a draw, rounded."""
        outputs = BOUND * jnp.tanh(_mean(self.state.actor, features)[0])
        found: list[float] = np.round(np.asarray(jax.nn.softmax(outputs), np.float64), 7).tolist()
        return found

    def layers(self) -> Layers:
        """The layers of the actor's mean, for a policy's file."""
        found = [*self.state.actor["trunk"], *self.state.actor["mean"]]
        return tuple((np.asarray(matrix, np.float64), np.asarray(bias, np.float64)) for matrix, bias in found)


# --- traced by JAX, once for each number of workers


def _cloning_step(state: State, batch: Batch, *, rates: Rates) -> tuple[State, Array]:
    loss, slopes = jax.value_and_grad(losses.cloning_loss)(state.actor, batch)
    actor, moments = _moved(rates, state.actor, slopes, state.moments[0])
    return state._replace(actor=actor, moments=(moments, *state.moments[1:])), loss


def _full_step(state: State, batch: Batch, *, rates: Rates, conservative: bool) -> State:
    keys = jax.random.split(state.key, 4)
    state = _criticised(state, batch, keys[0], keys[1], rates=rates, conservative=conservative)
    alpha = jnp.exp(state.alpha)
    found = partial(losses.actor_loss, critics=state.critics, alpha=alpha, batch=batch, key=keys[2])
    slopes, density = jax.grad(found, has_aux=True)(state.actor)
    actor, of_actor = _moved(rates, state.actor, slopes, state.moments[0])
    surplus = density + rates.entropy * batch.features.shape[1]
    log_alpha, of_alpha = _moved(rates, state.alpha, -surplus, state.moments[2])
    target = optax.incremental_update(state.critics, state.target, rates.tau)
    moments = (of_actor, state.moments[1], of_alpha)
    return State(actor, state.critics, target, log_alpha, moments, keys[3])


def _criticised(
    state: State, batch: Batch, one: Array, other: Array, *, rates: Rates, conservative: bool
) -> State:
    alpha = jnp.exp(state.alpha)
    aims = losses.targets(state.actor, state.target, alpha, batch, rates.gamma, one)

    def loss(critics: Any) -> Array:
        found = losses.critic_loss(critics, batch, aims)
        if conservative:
            found = found + rates.conservative * losses.conservative_loss(critics, state.actor, batch, other)
        return found

    critics, moments = _moved(rates, state.critics, jax.grad(loss)(state.critics), state.moments[1])
    return state._replace(critics=critics, moments=(state.moments[0], moments, state.moments[2]))


def _moved(rates: Rates, parameters: Any, slopes: Any, moments: Any) -> tuple[Any, Any]:
    changes, moments = optax.adam(rates.rate).update(slopes, moments)
    return optax.apply_updates(parameters, changes), moments


_clone = jax.jit(_cloning_step, static_argnames="rates")
_step = jax.jit(_full_step, static_argnames=("rates", "conservative"))
_draw = jax.jit(networks.sample)
_mean = jax.jit(networks.normal)
