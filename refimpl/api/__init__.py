"""One handler for each API of Kafka: from the wire's messages to the node's and back.

A handler decides nothing. It is a function of a `Call`, in the module that `table` names; where
the node has to be asked, it is a generator, which yields a request's body and gets the answer's:

    def handle(call: Call) -> Handling:
        answer: ListOffsetsResponse = yield ListOffsetsRequest(...)
        return {"topics": [...]}

What it returns are the fields of the response, of whatever version: see `wire.messages`.
"""
