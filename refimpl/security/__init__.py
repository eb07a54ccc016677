"""Security: principals, ACLs and the authorizer, SASL mechanisms and credentials.

Pure rules, as Kafka has them. Sockets, certificates and files are the edge's.
"""
