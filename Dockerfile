# Everything that `make` needs, for machines with an NVIDIA GPU and without one.
#
#   docker build --tag longtime .
#   docker run --rm --gpus all --user "$(id -u):$(id -g)" \
#     --volume "$PWD/data:/work/data" longtime make bench-gpu
#
# The wheel of torch brings CUDA's libraries and requirements-gpu.in NVIDIA's compiler, so that the
# small base image is enough. The driver of the machine must know CUDA 13.
FROM nvidia/cuda:13.0.2-base-ubuntu24.04

SHELL ["/bin/bash", "-o", "pipefail", "-c"]

# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /work

# The environment is built again only if the requirements change.
COPY Makefile requirements.in requirements-gpu.in requirements.lock ./
RUN make .venv/requirements \
    && .venv/bin/pip install --no-cache-dir -r requirements-gpu.in -c requirements.lock

COPY . .
# Any user may write, so that with --user the files in the mounted folder belong to whoever runs it.
RUN make .venv/project \
    && chmod a+w .venv \
    && find . -path ./.venv -prune -o -exec chmod a+rwX {} +
# A user whom the image doesn't know has neither a name, which DVC asks for, nor a home folder.
ENV HOME=/tmp USER=user

CMD ["make", "help"]
