// One saturated multipath connection over csg-htsim's library, as benchmarks/speed/peers.py asks for it.
//
// Every option is repeated as often as needed: --local and --remote RATE_BPS:DELAY_NS:QUEUE_BYTES, one for each
// link at the two ends. A subflow goes from each local link to each remote one, or, without remote links, over
// its local link alone. --cc is uncoupled, lia or full. With --ack-queues, acknowledgements go through links
// with queues like the data; without, they are only delayed. The last line of the output is JSON.

#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "eventlist.h"
#include "mtcp.h"
#include "network.h"
#include "pipe.h"
#include "queue.h"
#include "route.h"
#include "tcp.h"

#ifdef __OPTIMIZE__
#define OPTIMISED ", optimised"
#else
#define OPTIMISED ", NOT optimised"
#endif

namespace {

struct LinkSpec {
    uint64_t rate_bps;
    uint64_t delay_ns;
    int64_t queue_bytes;

    simtime_picosec delay() const { return delay_ns * 1000; }
};

struct Asked {
    std::vector<LinkSpec> local, remote;
    char cc = UNCOUPLED;
    bool ack_queues = false;
    double seconds = 1;
    int packet_bytes = 1500;
};

[[noreturn]] void refuse(const std::string& what) {
    std::cerr << "htsim driver: " << what << std::endl;
    std::exit(2);
}

LinkSpec parse_link(const std::string& text) {
    LinkSpec link{};
    char first = 0, second = 0;
    std::istringstream in(text);
    if (!(in >> link.rate_bps >> first >> link.delay_ns >> second >> link.queue_bytes) || first != ':' || second != ':')
        refuse("expected RATE_BPS:DELAY_NS:QUEUE_BYTES, found " + text);
    return link;
}

char parse_cc(const std::string& name) {
    if (name == "uncoupled") return UNCOUPLED;
    if (name == "lia") return COUPLED_INC;
    if (name == "full") return FULLY_COUPLED;
    refuse("--cc is uncoupled, lia or full, not " + name);
}

Asked parse(int count, char** words) {
    Asked asked;
    for (int i = 1; i < count; i++) {
        const std::string option = words[i];
        if (option == "--ack-queues") {
            asked.ack_queues = true;
            continue;
        }
        if (++i == count) refuse(option + " needs a value");
        const std::string value = words[i];
        if (option == "--local") asked.local.push_back(parse_link(value));
        else if (option == "--remote") asked.remote.push_back(parse_link(value));
        else if (option == "--cc") asked.cc = parse_cc(value);
        else if (option == "--seconds") asked.seconds = std::stod(value);
        else if (option == "--packet-bytes") asked.packet_bytes = std::stoi(value);
        else refuse("unknown option " + option);
    }
    if (asked.local.empty()) refuse("--local is missing");
    return asked;
}

// One direction of a link: a drop-tail queue and the delay behind it.
struct Direction {
    Queue queue;
    Pipe pipe;

    Direction(const LinkSpec& spec, EventList& events)
        : queue(spec.rate_bps, spec.queue_bytes, events, nullptr), pipe(spec.delay(), events) {}

    void append_to(Route& route) {
        route.push_back(&queue);
        route.push_back(&pipe);
    }
};

struct Link {
    LinkSpec spec;
    Direction there, back;

    Link(const LinkSpec& wanted, EventList& events) : spec(wanted), there(wanted, events), back(wanted, events) {}
};

using Links = std::vector<std::unique_ptr<Link>>;

Links made(const std::vector<LinkSpec>& specs, EventList& events) {
    Links links;
    for (const LinkSpec& spec : specs) links.push_back(std::make_unique<Link>(spec, events));
    return links;
}

// The connection. Its parts live as long as the program.
class Connection {
  public:
    Connection(const Asked& asked, EventList& events)
        : asked_(asked), events_(events), source_(asked.cc, events, nullptr), sink_(events), timers_(timeFromMs(10), events) {
        source_.connect(&sink_);
    }

    // `shared` is how many subflows cross the first link, which has the lowest rate.
    void add_subflow(std::vector<Link*> hops, size_t shared) {
        auto* source = new TcpSrc(nullptr, nullptr, events_);
        auto* sink = new TcpSink();
        auto* there = new Route();
        auto* back = new Route();
        uint64_t delay_ns = 0;
        for (Link* hop : hops) {
            hop->there.append_to(*there);
            delay_ns += hop->spec.delay_ns;
        }
        if (asked_.ack_queues) {
            for (auto hop = hops.rbegin(); hop != hops.rend(); ++hop) (*hop)->back.append_to(*back);
        } else {
            back->push_back(new Pipe(delay_ns * 1000, events_));
        }
        there->push_back(sink);
        back->push_back(source);
        // Slow start ends a little above what fills the path: one that overshoots by more would be recovered
        // from at one packet per round trip, which would take most of a simulation at high rates.
        const double product = hops.front()->spec.rate_bps / 8.0 * 2.0 * delay_ns * 1e-9;
        source->set_ssthresh(static_cast<uint64_t>(1.25 * product / shared));
        source_.addSubflow(source);
        sink_.addSubflow(sink);
        timers_.registerTcp(*source);
        source->connect(*there, *back, *sink, 0);
        sinks_.push_back(sink);
    }

    // Packets delivered in the order of their subflows.
    uint64_t delivered() const {
        uint64_t bytes = 0;
        for (const TcpSink* sink : sinks_) bytes += sink->_cumulative_ack;
        return bytes / asked_.packet_bytes;
    }

  private:
    const Asked& asked_;
    EventList& events_;
    MultipathTcpSrc source_;
    MultipathTcpSink sink_;
    TcpRtxTimerScanner timers_;
    std::vector<TcpSink*> sinks_;
};

double processor_s() {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1e-6 * (used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

}  // namespace

int main(int count, char** words) {
    const Asked asked = parse(count, words);
    srand(1);
    Packet::set_packet_size(asked.packet_bytes);
    EventList& events = EventList::getTheEventList();
    events.setEndtime(timeFromSec(asked.seconds));
    const Links local = made(asked.local, events), remote = made(asked.remote, events);
    Connection connection(asked, events);
    for (const auto& near : local) {
        if (remote.empty()) connection.add_subflow({near.get()}, 1);
        for (const auto& far : remote) connection.add_subflow({near.get(), far.get()}, remote.size());
    }
    const double start_s = processor_s();
    while (events.doNextEvent()) {
    }
    const double cpu_s = processor_s() - start_s;
    std::cout << std::endl << "{\"packets\": " << connection.delivered() << ", \"cpu_s\": " << cpu_s
              << ", \"compiler\": \"" << __VERSION__ << OPTIMISED << "\"}" << std::endl;
}
