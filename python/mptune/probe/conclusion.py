"""Conclusion from the findings of all steps: paths, access links and sites, as `--json` shows them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from mptune.probe import estimates, families
from mptune.probe.connections import Connections
from mptune.probe.echoes import Greeted, Losses
from mptune.probe.ends import ENDS, End, Route
from mptune.probe.estimates import Queue
from mptune.probe.links import Links, Rate
from mptune.probe.preparation import Prepared
from mptune.probe.queues import Queues
from mptune.probe.result import InterfaceFound, PathFound, Probed, SiteFound, Way
from mptune.probe.routes import shared_hops
from mptune.probe.verdicts import Verdict


class Conclusion:
    """The findings of the steps."""

    def __init__(
        self,
        prepared: Prepared,
        greeted: Greeted,
        connections: Connections,
        links: Links,
        queues: Queues,
        losses: Losses,
        routes: Mapping[End, Mapping[int, Route]],
    ) -> None:
        self._prepared, self._udp = prepared, greeted.udp
        self._mtus, self._losses = greeted.mtus, losses.losses
        self._rtts = {**greeted.rtts, **connections.rtts, **losses.rtts}
        self._sources = {**connections.sources, **greeted.sources}
        self._links, self._queues, self._routes = links, queues, routes

    def probed(self, verdicts: Mapping[int, Verdict], notes: Sequence[str]) -> Probed:
        """Everything that was found."""
        prepared = self._prepared
        paths = [self._path(path, verdicts.get(path)) for path in range(len(prepared.paths))]
        return Probed(
            when=datetime.now(UTC).date().isoformat(),
            sender=self._site("sender"),
            receiver=self._site("receiver"),
            paths=paths,
            leaving=prepared.leaving,
            notes=[*prepared.notes, *notes, *families.differences(paths)],
            shared_hops=shared_hops(
                {
                    end: {prepared.label(path): route for path, route in routes.items()}
                    for end, routes in self._routes.items()
                }
            ),
            seconds=time.monotonic() - prepared.began_s,
            bytes=prepared.ends.bytes,
        )

    def _path(self, path: int, mptcp: Verdict | None) -> PathFound:
        """A path with both directions, and what its links mean for it."""
        prepared, rtt, source = self._prepared, self._rtts.get(path), self._sources.get(path)
        route = prepared.paths[path]
        found = PathFound(
            label=prepared.label(path),
            local=route.local,
            remote=route.remote,
            family=prepared.named_family(path),
            udp=path in self._udp,
            rtt=rtt,
            source=source,
            translated=source is not None and route.addresses is not None and source != route.addresses[0],
            up=self._way("sender", path),
            down=self._way("receiver", path),
            core_bps=min((core for core in self._cores(path) if core is not None), default=None),
            mptcp=mptcp,
        )
        if rtt is not None:
            size = prepared.least_bytes(path) if found.udp else 0
            rates = [*self._access_rates(path), *self._cores(path)]
            waits = [way.queue.delay_ns for way in (found.up, found.down) if way.queue is not None]
            found.base_rtt_ns = estimates.propagation_ns(rtt.min_ns, size, rates)
            found.loaded_rtt_ns = rtt.min_ns + max(waits, default=0)
        return found

    def _way(self, end: End, path: int) -> Way:
        """One direction of a path."""
        rate = self._links.paths[end].get(path, Rate(None, ""))
        mtu, mtu_next = self._mtus[end].get(path, (None, None))
        return Way(
            rate=rate.estimate,
            how=rate.how,
            loss=self._losses[end].get(path),
            queue=self._queues.get((end, path)),
            mtu=mtu,
            mtu_next=mtu_next,
            route=self._routes[end].get(path),
        )

    def _access_rates(self, path: int) -> list[float]:
        """Rates of the access links of a path, both directions, as far as they are known."""
        route = self._prepared.paths[path]
        out, back = self._links["sender"], self._links["receiver"]
        links = out.near[route.local], out.far[route.remote], back.near[route.remote], back.far[route.local]
        return [estimate.value for estimate in links if estimate is not None]

    def _cores(self, path: int) -> list[float | None]:
        """Limits of a path beyond both ends, by direction."""
        route = self._prepared.paths[path]
        out, back = self._links["sender"], self._links["receiver"]
        return [out.core.get((route.local, route.remote)), back.core.get((route.remote, route.local))]

    def _site(self, end: End) -> SiteFound:
        """A machine with its access links and their queues."""
        prepared, links, other = self._prepared, self._links, ENDS[1 - ENDS.index(end)]
        queues: dict[tuple[str, int], Queue] = {}
        for path in range(len(prepared.paths)):
            for sends, kind in ((end, "near"), (other, "far")):
                queue, limit = self._queues.get((sends, path)), links.limit(sends, path)
                if queue is not None and limit is not None and limit[0] == kind:
                    queues[kind, limit[1]] = queue
        return SiteFound(
            name=prepared.machines[end].name,
            ssh=prepared.wish.ssh[end],
            kernel=str(prepared.facts[end].get("kernel", "")),
            interfaces=[
                InterfaceFound(
                    nic=nic,
                    up=links[end].near[number],
                    down=links[other].far[number],
                    queue_up=queues.get(("near", number)),
                    queue_down=queues.get(("far", number)),
                )
                for number, nic in enumerate(prepared.nics[end])
            ],
        )
