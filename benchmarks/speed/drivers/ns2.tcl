# One saturated TCP SACK connection per subflow in ns-2, as benchmarks/speed/peers.py asks for it.
#
# ns ns2.tcl SECONDS PACKET_BYTES LOCAL REMOTE: two lists of links, {RATE_BPS DELAY_NS QUEUE_PACKETS}. A connection
# goes from each local link to each remote one, or, without remote links, over its local link alone. The
# connections know nothing of each other. The last line of the output is JSON.

lassign $argv seconds packet_bytes local remote

# Headers that nothing here uses cost time in every packet.
remove-all-packet-headers
add-packet-header IP TCP Flags

set ns [new Simulator]

proc joined {from to link} {
    global ns
    lassign $link rate_bps delay_ns queue_packets
    $ns duplex-link $from $to $rate_bps [expr {$delay_ns * 1e-9}] DropTail
    $ns queue-limit $from $to $queue_packets
    $ns queue-limit $to $from $queue_packets
}

set ends {}
if {[llength $remote] == 0} {
    foreach link $local {
        set near [$ns node]
        set far [$ns node]
        joined $near $far $link
        lappend ends $near $far
    }
} else {
    set between [$ns node]
    set fars {}
    foreach link $remote {
        set far [$ns node]
        joined $between $far $link
        lappend fars $far
    }
    foreach link $local {
        set near [$ns node]
        joined $near $between $link
        foreach far $fars {
            lappend ends $near $far
        }
    }
}

set sources {}
foreach {near far} $ends {
    set source [new Agent/TCP/Sack1]
    # The size of a packet is without its 40 bytes of headers.
    $source set packetSize_ [expr {$packet_bytes - 40}]
    $source set window_ 100000
    $source set maxcwnd_ 0
    set sink [new Agent/TCPSink/Sack1/DelAck]
    $ns attach-agent $near $source
    $ns attach-agent $far $sink
    $ns connect $source $sink
    set traffic [new Application/FTP]
    $traffic attach-agent $source
    $ns at 0.0 "$traffic start"
    lappend sources $source
}

# Ticks of processor time of this process, user and system: fields 14 and 15 of proc(5)'s stat.
proc ticks {} {
    set file [open /proc/self/stat]
    set fields [split [lindex [split [read $file] ")"] end]]
    close $file
    return [expr {[lindex $fields 12] + [lindex $fields 13]}]
}

proc finished {} {
    global sources start
    set used [expr {[ticks] - $start}]
    set packets 0
    foreach source $sources {
        # A sequence number is a packet's, from 0.
        set packets [expr {$packets + [$source set ack_] + 1}]
    }
    puts "{\"packets\": $packets, \"ticks\": $used}"
    exit 0
}

$ns at $seconds finished
set start [ticks]
$ns run
