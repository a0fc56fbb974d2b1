# One image for every part: master, worker and simulator differ only in their command.
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    MPLCONFIGDIR=/tmp/matplotlib

WORKDIR /app

# Before the suite, so that a changed line of ours installs nothing anew. The packages' own tests
# and headers are a sixth of what is installed; removed in the same layer, or they would stay in it.
COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt \
    && site=$(python -c "import os, pandas; print(os.path.dirname(pandas.__path__[0]))") \
    && find "$site" -type d \( -name tests -o -path "*/pyarrow/include" \) -prune -exec rm -rf {} +

RUN useradd --uid 1000 --create-home swarmgauge && install -d -o swarmgauge -g swarmgauge runs
COPY . .

# By number, so that Kubernetes can see that it is not root.
USER 1000:1000
STOPSIGNAL SIGTERM
CMD ["locust"]
