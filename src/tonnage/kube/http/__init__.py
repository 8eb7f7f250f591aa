"""HTTP/1.1 as a client, with httptools' parser: no more than the API server and the other replicas need."""
