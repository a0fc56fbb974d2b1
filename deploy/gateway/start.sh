#!/bin/sh
# Starts LiteLLM with the workers' key as its own; without a key it would serve nobody.
key=$(cat "${KEY_FILE:-/run/secrets/api_key}")
case $key in
  sk-*) ;;
  *)
    echo "gateway: SWARMGAUGE_API_KEY_FILE in .env must name a file whose key begins with sk-" >&2
    exit 1
    ;;
esac
LITELLM_MASTER_KEY=$key exec "${LITELLM:-litellm}" "$@"
