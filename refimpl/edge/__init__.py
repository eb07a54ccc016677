"""The edge: sockets, clocks and disks around the node; the one room that knows that time passes."""
