import CLibcurl
import FoundationEssentials
import HTTPCore

// What libcurl's callbacks tell, and what they are answered.
extension Engine {
    // MARK: Connections

    /// A connection is about to be opened. Returns whether it may; what is refused is remembered with the transfer.
    func mayConnect(to address: UnsafePointer<curl_sockaddr>, _ handle: EasyHandle) -> Bool {
        guard let addressGuard else { return true }
        guard let transfer = handle.transfer else { return false }
        guard let refusal = refusal(of: address, transfer, addressGuard) else { return true }
        transfer.blockedAddress = refusal
        return false
    }

    func refusal(
        of address: UnsafePointer<curl_sockaddr>, _ transfer: Transfer, _ addressGuard: AddressGuard
    ) -> NetworkError? {
        let host = transfer.target.host
        if address.pointee.family == AF_UNIX {
            return AddressGuard.error(.unixSocket, address: "a Unix domain socket", host: host)
        }
        // The proxy is the app's choice; the URL's host was looked at when the request was prepared.
        if transfer.plan.proxy != nil { return nil }
        guard let address = SocketAddress.address(of: address) else {
            return AddressGuard.error(.reserved, address: "an address of an unknown family", host: host)
        }
        return addressGuard.refusal(of: address, host: host).map {
            AddressGuard.error($0, address: address.description, host: host)
        }
    }

    func opened(_ descriptor: CInt) { sockets.opened(descriptor) }

    func closed(_ descriptor: CInt) { sockets.closed(descriptor) }

    func watch(_ descriptor: CInt, _ what: CInt) { sockets.watch(descriptor, what) }

    /// Shuts the connections that no transfer uses and that lead nowhere any more.
    func dropDeadConnections() {
        let busy = handles.all.compactMap { $0.transfer == nil ? nil : $0.activeSocket }
        sockets.shutDownIdle(except: Set(busy), where: ConnectionRoute.isGone)
    }

    func setTimer(milliseconds: Int) {
        timer = milliseconds < 0 ? .distantFuture : milliseconds == 0 ? now : now + Int64(milliseconds)
    }

    /// A connection stands and the request is about to go out on it. Returns whether it may.
    ///
    /// libcurl repeats a request by itself when a connection from the pool turns out to be dead. That is right
    /// when nothing was sent, or the request may be repeated; a request with effects that went out may have had
    /// them (RFC 9110 §9.2.2).
    func connectionIsReady(_ handle: EasyHandle, address: UnsafePointer<CChar>?) -> Bool {
        guard let transfer = handle.transfer else { return false }
        if let addressGuard, transfer.plan.proxy == nil {
            // A connection from the pool was looked at when it was opened; this is the second bolt on the door.
            let known = address.flatMap { IPAddress(host: String(cString: $0)) }
            let rule = known.map { addressGuard.refusal(of: $0, host: transfer.target.host) } ?? .reserved
            if let rule {
                transfer.failure = AddressGuard.error(
                    rule, address: known?.description ?? "the connection", host: transfer.target.host)
                return false
            }
        }
        transfer.lastActivity = now
        transfer.connectionsUsed += 1
        transfer.plan.warmUp?.noteConnection(handle)
        defer { transfer.hasHeadOnConnection = false }
        let isIdempotent = transfer.request.method.isIdempotent
        // Nothing but a refused stream makes libcurl leave a connection that it has just opened.
        let wasOnFreshConnection = transfer.isOnFreshConnection
        if !isIdempotent {
            let opened = handle.long(CURLINFO_NUM_CONNECTS)
            transfer.isOnFreshConnection = opened > transfer.connectionsOpened
            transfer.connectionsOpened = opened
        }
        let isRepetition = transfer.connectionsUsed > 1 && !transfer.hasHeadOnConnection
        guard isRepetition else {
            if transfer.isSuspended { mailbox.post(.update(transfer)) }
            return true
        }
        transfer.repetitions += 1
        let sentBefore = transfer.bytesSentBefore
        transfer.bytesSentBefore = handle.long(CURLINFO_REQUEST_SIZE)
        let isUnsent = transfer.bytesSentBefore == sentBefore
        let replay = Replay(
            fate: isUnsent ? .unsent : wasOnFreshConnection ? .refused : .unknown, isIdempotent: isIdempotent,
            isMultiplexed: isMultiplexed(transfer))
        if replay.allowsRepetition(transfer.repetitions) { return true }
        transfer.failure = EngineFailure.staleConnection(transfer)
        return false
    }

    // MARK: The response

    /// A server's word for the size of a body is believed up to here; beyond, memory grows with what comes.
    private static let reserveLimit: Int64 = 16 << 20

    func receivedHeaderLine(_ line: UnsafeBufferPointer<UInt8>, _ handle: EasyHandle) -> Int {
        guard let transfer = handle.transfer, transfer.failure == nil else { return 0 }
        transfer.lastActivity = now
        transfer.hasHeadOnConnection = true
        if transfer.firstByteAt == nil { transfer.firstByteAt = now }
        if let cookies, cookies.isPersistent, !cookies.mayHaveChanged, Self.setsCookie(line) {
            cookies.mayHaveChanged = true
        }
        let wasComplete = transfer.head.isComplete
        guard transfer.head.append(line) else {
            transfer.failure = EngineFailure.headTooLarge
            return 0
        }
        if !wasComplete, transfer.head.isFinal {
            if !libcurlMayAskAgain(transfer), let announced = transfer.announcedBodySize,
                announced > transfer.plan.maxBodySize
            {
                transfer.failure = .bodyTooLarge(limit: transfer.plan.maxBodySize)
                return 0
            }
            // libcurl stops sending by itself, but not when the body is being waited for.
            if transfer.head.status >= 300, case .source? = transfer.plan.body, !libcurlMayAskAgain(transfer) {
                transfer.stopsSending = true
                mailbox.post(.update(transfer))
            }
            if transfer.pipe != nil, !libcurlMayAskAgain(transfer) { answerWithStream(transfer, handle) }
        }
        return line.count
    }

    static func setsCookie(_ line: UnsafeBufferPointer<UInt8>) -> Bool {
        let name = "set-cookie:".utf8
        return line.count > name.count && zip(line, name).allSatisfy { $0 | 0x20 == $1 || $0 == $1 }
    }

    /// Whether the head is a proxy's refusal: only a proxy that speaks HTTP may say 407 (RFC 9110 §15.5.8).
    func isProxyRefusal(_ transfer: Transfer) -> Bool {
        transfer.head.status == 407 && transfer.plan.proxy.map { !$0.isSOCKS } ?? false
    }

    /// Whether the head may be a challenge that libcurl answers by itself, so that another head follows.
    func libcurlMayAskAgain(_ transfer: Transfer) -> Bool {
        transfer.head.status == 401 && transfer.mayBeChallenged || transfer.head.status == 407
    }

    func answerWithStream(_ transfer: Transfer, _ handle: EasyHandle) {
        guard !transfer.hasAnswered else { return }
        saveCookies()
        transfer.answer(.success(response(of: transfer, timings: handle.timings(of: transfer, isOver: false))))
    }

    func received(_ bytes: UnsafeRawBufferPointer, _ handle: EasyHandle) -> Int {
        guard let transfer = handle.transfer, transfer.failure == nil else { return 0 }
        transfer.lastActivity = now
        if isProxyRefusal(transfer) { return bytes.count }
        if throttle?.allows(receiving: bytes.count, transfer, now) == false { return Int(CURL_WRITEFUNC_PAUSE) }
        if let pipe = transfer.pipe, pipe.pauseIfFull() {
            // libcurl keeps these bytes and stops reading; otherwise it goes on for a hundred buffers before it looks up.
            transfer.isPaused = true
            return Int(CURL_WRITEFUNC_PAUSE)
        }
        transfer.bodyByteCount += Int64(bytes.count)
        guard transfer.bodyByteCount <= transfer.plan.maxBodySize else {
            transfer.failure = .bodyTooLarge(limit: transfer.plan.maxBodySize)
            return 0
        }
        if transfer.plan.decompresses, transfer.bodyByteCount > TransferPlan.decompressionGrace {
            let coded = max(1, handle.offset(CURLINFO_SIZE_DOWNLOAD_T))
            if transfer.bodyByteCount / coded > transfer.plan.maxDecompressionRatio {
                transfer.failure = EngineFailure.decompressionBomb(ratio: transfer.plan.maxDecompressionRatio)
                return 0
            }
        }
        if let pipe = transfer.pipe {
            answerWithStream(transfer, handle)
            pipe.append(bytes)
            if !transfer.hasNewChunks {
                transfer.hasNewChunks = true
                pipesWithNews.append(transfer)
            }
        } else if transfer.body.isEmpty, case let size = max(transfer.bodyByteCount, transfer.announcedBodySize ?? 0),
            size > transfer.reservedBodySize
        {
            transfer.body = Data(bytes)
            if size > transfer.bodyByteCount { transfer.body.reserveCapacity(Int(min(size, Self.reserveLimit))) }
        } else {
            transfer.body.append(bytes.assumingMemoryBound(to: UInt8.self))
        }
        return bytes.count
    }

    func send(_ buffer: UnsafeMutableRawBufferPointer, from source: any BodySource, _ handle: EasyHandle) -> Int {
        guard let transfer = handle.transfer, transfer.failure == nil else { return Int(CURL_READFUNC_ABORT) }
        if transfer.stopsSending { return 0 }
        if throttle?.allowsSending(transfer, now) == false { return Int(CURL_READFUNC_PAUSE) }
        let piece =
            throttle.map { UnsafeMutableRawBufferPointer(rebasing: buffer.prefix($0.piece(transfer))) } ?? buffer
        switch source.read(into: piece) {
        case .bytes(let count):
            throttle?.sent(count, transfer)
            transfer.lastActivity = now
            transfer.sourceBytes += Int64(count)
            return count
        case .end: return 0
        case .pause: return Int(CURL_READFUNC_PAUSE)
        case .failed(let error):
            transfer.failure = error
            return Int(CURL_READFUNC_ABORT)
        }
    }

    func rewind(_ source: any BodySource, _ handle: EasyHandle) -> CInt {
        handle.transfer?.sourceBytes = 0
        if handle.transfer?.hasMadeTrailers != true, source.rewind() { return CURL_SEEKFUNC_OK }
        handle.transfer?.failure = EngineFailure.notReplayable
        return CURL_SEEKFUNC_FAIL
    }
}
