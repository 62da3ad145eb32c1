"""Pictures as clients have them: JPEG and PNG files, made to fit the model."""

from __future__ import annotations

import io
import warnings

import torch
from PIL import Image, ImageOps
from torch import Tensor

from multipool.serve.refusal import Refusal, bad

FORMATS = ("JPEG", "PNG")


def read_picture(data: bytes, size: tuple[int, int, int], max_pixels: int) -> Tensor:
    """Return a file's picture as uint8 ``(C, H, W)`` of the model's ``size``.

    A picture of another size is scaled until it covers the model's, and its middle is taken; one
    of the right size is taken as it is. Its size is read before anything is unpacked.
    """
    channels, height, width = size
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own warning of large pictures: we refuse them
            with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
                pixels = opened.width * opened.height
                if pixels > max_pixels:
                    raise Refusal(
                        413,
                        f"a picture may have {max_pixels} pixels, got {opened.width} x "
                        f"{opened.height}",
                    )
                picture = ImageOps.exif_transpose(opened).convert("RGB" if channels == 3 else "L")
    except Refusal:
        raise
    except Image.DecompressionBombError:
        raise Refusal(413, f"a picture may have {max_pixels} pixels, got far more") from None
    except Exception as error:  # damaged files make the decoders raise nearly anything
        found = type(error).__name__  # its text names objects of this program
        raise bad(f"the picture is no readable JPEG or PNG ({found})") from None
    if picture.size != (width, height):
        picture = ImageOps.fit(picture, (width, height), Image.Resampling.BILINEAR)
    flat = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
    return flat.view(height, width, channels).permute(2, 0, 1).contiguous()
