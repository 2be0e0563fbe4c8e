"""The analysis of microscopy images: a PySpark job of the benchmark, and the images that it is given.

An image is a PNG of 8 bits, :data:`SIDE` pixels square, with bright nuclei on an uneven, noisy background.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SIDE = 512  # pixels
_RADIUS = (7.0, 12.0)  # pixels, of a nucleus
_LEAST_AREA = 60  # pixels: smaller objects are noise


def nuclei(messages: DataFrame) -> DataFrame:
    """Count the nuclei of each image: ``value`` is ``TOPIC COUNT MEAN_AREA``, the area in pixels."""
    from pyspark.sql import functions as F  # noqa: N812

    counted = F.udf(lambda topic, image: f"{topic} {described(bytes(image))}", "STRING")
    return messages.select(counted("topic", "value").alias("value"))


nuclei.value_type = "binary"  # type: ignore[attr-defined]


def described(image: bytes) -> str:
    """The number of nuclei of an image, and their mean area in pixels: as ``COUNT MEAN_AREA``."""
    import imageio.v3 as images
    import numpy as np
    from scipy import ndimage
    from skimage import feature, filters, measure, segmentation
    from skimage.morphology import remove_small_objects

    pixels = images.imread(image).astype(float)
    smooth = filters.gaussian(pixels, 2)
    even = smooth - filters.gaussian(smooth, 40)  # without the background
    mask = remove_small_objects(even > filters.threshold_otsu(even), max_size=_LEAST_AREA)
    distance = ndimage.distance_transform_edt(mask)
    peaks = feature.peak_local_max(filters.gaussian(distance, 1), min_distance=6, labels=measure.label(mask))
    seeds = np.zeros(mask.shape, dtype=int)
    seeds[tuple(peaks.T)] = np.arange(1, len(peaks) + 1)
    found = measure.regionprops(segmentation.watershed(-distance, seeds, mask=mask))
    areas = [each.area for each in found]
    return f"{len(areas)} {sum(areas) / max(1, len(areas)):.1f}"


def generated(seed: int, nuclei: int) -> bytes:
    """A PNG with this number of nuclei at random places, some of which touch."""
    import imageio.v3 as images
    import numpy as np

    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    pixels = 20 + 25 * rows / SIDE + random.normal(0, 4, (SIDE, SIDE))
    for row, column in random.uniform(15, SIDE - 15, (nuclei, 2)):
        radius = random.uniform(*_RADIUS)
        away = ((rows - row) ** 2 + (columns - column) ** 2) / radius**2
        pixels += 120 / (1 + np.exp(np.minimum(8 * (away - 1), 100)))
    found: bytes = images.imwrite("<bytes>", np.clip(pixels, 0, 255).astype(np.uint8), extension=".png")
    return found
