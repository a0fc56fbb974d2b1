# One image for every part: master, worker and simulator differ only in their command.
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    MPLCONFIGDIR=/tmp/matplotlib

WORKDIR /app

# Before the suite, so that a changed line of ours installs nothing anew.
COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt

RUN useradd --uid 1000 --create-home swarmgauge && install -d -o swarmgauge -g swarmgauge runs
COPY . .

USER swarmgauge
CMD ["locust"]
