import CLibcurl
import HTTPCore

// What libcurl tells of a transfer.
extension EasyHandle {
    func long(_ info: CURLINFO) -> Int {
        var value = 0
        return lat_getinfo_long(curl, info, &value) == CURLE_OK ? value : 0
    }

    func offset(_ info: CURLINFO) -> Int64 {
        var value: curl_off_t = 0
        return lat_getinfo_off(curl, info, &value) == CURLE_OK ? Int64(value) : 0
    }

    /// The own port of the transfer's connection; 0 without one, and on a Unix socket.
    var localPort: Int { max(0, long(CURLINFO_LOCAL_PORT)) }

    /// The socket of the transfer's connection; negative without one, and with libcurl 7.88 until the transfer is over.
    var activeSocket: curl_socket_t {
        var socket: curl_socket_t = -1
        return lat_getinfo_socket(curl, &socket) == CURLE_OK ? socket : -1
    }

    /// How long the stages took.
    ///
    /// - Parameter isOver: whether the body is too; until then there is no total.
    func timings(of transfer: Transfer, isOver: Bool) -> Timings {
        let queue = (transfer.machine.startedAt.nanoseconds - transfer.machine.submittedAt.nanoseconds) / 1000
        let total = isOver ? time(CURLINFO_TOTAL_TIME_T, of: transfer) : 0
        var firstByte = time(CURLINFO_STARTTRANSFER_TIME_T, of: transfer)
        if transfer.plan.body != nil {
            // libcurl takes the first byte sent for the first of the transfer when there is a body. The engine's own
            // clock stands still within a turn, so it may be a little ahead of libcurl's total.
            firstByte =
                transfer.machine.firstByteAt.map { ($0.nanoseconds - transfer.machine.startedAt.nanoseconds) / 1000 }
                ?? 0
            if isOver { firstByte = min(firstByte, total) }
        }
        return Timings(
            nameLookup: time(CURLINFO_NAMELOOKUP_TIME_T, of: transfer),
            connect: time(CURLINFO_CONNECT_TIME_T, of: transfer),
            tls: time(CURLINFO_APPCONNECT_TIME_T, of: transfer), firstByte: firstByte,
            total: total, queue: max(0, queue),
            connectionReused: long(CURLINFO_NUM_CONNECTS) == 0 && offset(CURLINFO_PRETRANSFER_TIME_T) > 0)
    }

    /// One of libcurl's times, which count from when it got the request last; 0 for a stage that did not take place.
    private func time(_ info: CURLINFO, of transfer: Transfer) -> Int64 {
        let time = offset(info)
        guard time > 0, transfer.machine.attempts.replays > 0 else { return time }
        return time + (transfer.machine.attemptStartedAt.nanoseconds - transfer.machine.startedAt.nanoseconds) / 1000
    }
}
