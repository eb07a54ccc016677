"""The simulated cluster: time, network, disks, and the nodes of `refimpl.broker` that it hosts."""
