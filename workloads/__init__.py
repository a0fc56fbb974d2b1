"""What is asked for, where: prompts, lengths, request bodies, the endpoint's URL. All pure."""
