import CLibcurl
internal import HTTPCore

// What libcurl reports about a transfer (`curl_easy_getinfo`).
extension EasyHandle {
    func long(_ info: CURLINFO) -> Int {
        var value = 0
        return lat_getinfo_long(curl, info, &value) == CURLE_OK ? value : 0
    }

    func offset(_ info: CURLINFO) -> Int64 {
        var value: curl_off_t = 0
        return lat_getinfo_off(curl, info, &value) == CURLE_OK ? Int64(value) : 0
    }

    /// A text; `nil` when it is missing or empty.
    func text(_ info: CURLINFO) -> String? {
        var text: UnsafePointer<CChar>?
        guard lat_getinfo_string(curl, info, &text) == CURLE_OK, let text, text[0] != 0 else { return nil }
        return String(cString: text)
    }

    /// The local port of the transfer's connection; 0 without a connection and on a Unix domain socket.
    var localPort: Int { max(0, long(CURLINFO_LOCAL_PORT)) }

    /// The socket of the transfer's connection; negative without one, and with libcurl 7.88 until the transfer has
    /// ended.
    var activeSocket: curl_socket_t {
        var socket: curl_socket_t = -1
        return lat_getinfo_socket(curl, &socket) == CURLE_OK ? socket : -1
    }

    /// How long each stage took.
    ///
    /// - Parameter isOver: Whether the transfer has ended, successfully or not. Until then the total is 0.
    func timings(of transfer: Transfer, isOver: Bool) -> Timings {
        let queue = (transfer.machine.startedAt.nanoseconds - transfer.machine.submittedAt.nanoseconds) / 1000
        let total = isOver ? time(CURLINFO_TOTAL_TIME_T, of: transfer) : 0
        var firstByte = time(CURLINFO_STARTTRANSFER_TIME_T, of: transfer)
        if transfer.plan.body != nil {
            // With a request body, libcurl's time is that of the first byte sent. The engine reads its clock once per
            // turn, so its time may slightly exceed libcurl's total.
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

    /// The connection of a transfer whose response has arrived.
    func connection(of transfer: Transfer, _ timings: Timings) -> HTTPResponse.Connection {
        var id: curl_off_t = -1
        // CURLINFO_CONN_ID, since libcurl 8.2.
        let hasID =
            !GlobalCurl.Old.hidesConnectionID
            && lat_getinfo_off(curl, CURLINFO(rawValue: 0x60_0000 + 64), &id) == CURLE_OK && id >= 0
        return HTTPResponse.Connection(
            id: hasID ? Int64(id) : nil, remoteAddress: text(CURLINFO_PRIMARY_IP) ?? "",
            remotePort: max(0, long(CURLINFO_PRIMARY_PORT)), localPort: localPort,
            isReused: timings.connectionReused, sentBodySize: offset(CURLINFO_SIZE_UPLOAD_T),
            receivedBodySize: transfer.machine.isStream ? nil : offset(CURLINFO_SIZE_DOWNLOAD_T),
            headSize: long(CURLINFO_HEADER_SIZE))
    }

    /// One of libcurl's times, counted from the start of the first attempt; 0 for a stage that did not take place.
    private func time(_ info: CURLINFO, of transfer: Transfer) -> Int64 {
        let time = offset(info)
        guard time > 0, transfer.machine.attempts.replays > 0 || transfer.addresses != nil else { return time }
        return time + (transfer.machine.attemptStartedAt.nanoseconds - transfer.machine.startedAt.nanoseconds) / 1000
    }
}
