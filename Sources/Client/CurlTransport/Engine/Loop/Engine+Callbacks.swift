import CLibcurl
import FoundationEssentials
internal import HTTPCore
import Platform

// The engine's side of libcurl's callbacks.
extension Engine {
    // MARK: Connections

    /// Returns whether a connection to an address may be opened. If not, the transfer keeps the reason.
    func mayConnect(to address: UnsafePointer<curl_sockaddr>, _ handle: EasyHandle) -> Bool {
        guard let addressGuard else { return true }
        guard let transfer = handle.transfer else { return false }
        guard let refusal = refusal(of: address, transfer, addressGuard) else { return true }
        transfer.socketRefusal = refusal
        return false
    }

    func refusal(
        of address: UnsafePointer<curl_sockaddr>, _ transfer: Transfer, _ addressGuard: AddressGuard
    ) -> NetworkError? {
        let host = transfer.target.host
        if address.pointee.family == AF_UNIX {
            return AddressGuard.error(.unixSocket, address: "a Unix domain socket", host: host)
        }
        // The proxy's address is the app's choice. The URL's host was checked when the request was prepared.
        if transfer.plan.proxy != nil { return nil }
        guard let address = IPAddress(address) else {
            return AddressGuard.error(.reserved, address: "an address of an unknown family", host: host)
        }
        return addressGuard.refusal(of: address, host: host).map {
            AddressGuard.error($0, address: address.description, host: host)
        }
    }

    /// The sockets of the connections that no transfer uses.
    private var idleSockets: [CInt] { sockets.idle(exceptPorts: busyPorts) }

    /// The local ports of running transfers.
    var busyPorts: Set<Int> { Set(handles.all.compactMap { $0.transfer == nil ? nil : $0.localPort }) }

    var idleEnds: Set<ConnectionEnds> { Set(idleSockets.compactMap(ConnectionEnds.init)) }

    /// Shuts down the idle connections that have these ends. To libcurl, and to ``isUnusable(_:_:)``, they then look closed
    /// by the server.
    func shutDownIdle(_ gone: Set<ConnectionEnds>) {
        guard !gone.isEmpty else { return }
        for socket in idleSockets where ConnectionEnds(socket).map(gone.contains) == true {
            shutdown(socket, CInt(SHUT_RDWR))
        }
    }

    /// Shuts down the idle connections to an address.
    func shutDownIdle(to peer: SocketAddress) {
        for socket in idleSockets where SocketAddress.peer(of: socket) == peer { shutdown(socket, CInt(SHUT_RDWR)) }
    }

    func setTimer(milliseconds: Int) {
        timer = milliseconds < 0 ? .distantFuture : milliseconds == 0 ? now : now + Int64(milliseconds)
    }

    /// Returns whether the request may be sent on a connection that is ready for it.
    func connectionIsReady(_ handle: EasyHandle, address: UnsafePointer<CChar>?) -> Bool {
        guard let transfer = handle.transfer else { return false }
        if let addressGuard, transfer.plan.proxy == nil {
            // A pooled connection was checked when it was opened; checking again costs little.
            let known = address.flatMap { IPAddress(host: String(cString: $0)) }
            let rule = known.map { addressGuard.refusal(of: $0, host: transfer.target.host) } ?? .reserved
            if let rule {
                transfer.fail(
                    AddressGuard.error(
                        rule, address: known?.description ?? "the connection", host: transfer.target.host))
                return false
            }
        }
        if let use = transfer.addresses { noteConnection(of: transfer, use, handle, to: address) }
        let readiness = transfer.machine.connectionIsReady(
            now, sent: handle.long(CURLINFO_REQUEST_SIZE), refusal: transfer.streamRefusal,
            // A host that has not answered yet may already have refused streams.
            isMultiplexed: isMultiplexed(transfer) || OpenSSL.choseHTTP2(handle.curl))
        transfer.streamRefusal = StreamRefusal()
        if GlobalCurl.Old.endsReadingAtLength {
            transfer.wakeDelay = 0
            transfer.isUploadingToStream = transfer.machine.rules.hasBody && OpenSSL.choseHTTP2(handle.curl)
            handle.setIgnoresLength(transfer.isUploadingToStream)
        }
        transfer.plan.warmUp?.noteConnection(handle)
        switch readiness {
        case .refuse, .hasResponse:
            transfer.fail(
                readiness == .refuse ? EngineFailure.staleConnection(transfer) : EngineFailure.resetResponse(transfer))
            return false
        case .send: break
        case .sendPaused: mailbox.post(.update(transfer))
        }
        return !isUnusable(handle, transfer)
    }

    /// Whether a pooled connection cannot carry the next request, because it was closed or holds unsolicited input.
    ///
    /// In HTTP/1, bytes after a complete response belong to no request and make the connection unusable (RFC 9112 §9.2).
    /// libcurl 7.88 takes them for the next response. Newer versions check a connection before each use, but from 8.22 on
    /// only once a second, so there the engine checks each connection itself. Two kinds of connections may have input:
    /// one with HTTP/2, whose frames may arrive at any time, and a prewarmed one that has carried no request, whose
    /// input may be TLS session tickets.
    func isUnusable(_ handle: EasyHandle, _ transfer: Transfer) -> Bool {
        let hasUnsolicitedInput =
            if GlobalCurl.checksPoolOncePerSecond {
                handle.long(CURLINFO_NUM_CONNECTS) == 0 && sockets.hasUnsolicitedInput(handle.activeSocket)
            } else if sockets.inputCount > 0 {
                // On Unix domain sockets, no port distinguishes a new connection from those that hold input.
                (handle.localPort > 0 || handle.long(CURLINFO_NUM_CONNECTS) == 0)
                    && sockets.hasUnsolicitedInput(port: handle.localPort)
            } else {
                false
            }
        return hasUnsolicitedInput && !transfer.plan.version.hasPriorKnowledge && !OpenSSL.choseHTTP2(handle.curl)
    }

    // MARK: The response

    /// The maximum memory reserved for an announced body size, in bytes. Beyond it, memory grows with the bytes that arrive.
    private static let reserveLimit: Int64 = 16 << 20

    func receivedHeaderLine(_ line: UnsafeBufferPointer<UInt8>, _ handle: EasyHandle) -> Int {
        guard let transfer = handle.transfer, transfer.machine.receivedHeadLine(now) else { return 0 }
        let wasComplete = transfer.head.isComplete
        if let cookies, !wasComplete, CookieStore.setsCookie(line) { receive(line, into: cookies, handle, transfer) }
        guard transfer.head.append(line) else {
            return refuse(transfer, transfer.head.fault.map(EngineFailure.violation) ?? EngineFailure.headTooLarge)
        }
        guard !wasComplete, transfer.head.isComplete else { return line.count }
        if transfer.head.isFinal { return receivedHead(transfer, handle) ? line.count : 0 }
        transfer.owner?.interimHandler?(transfer.head.status, transfer.head.headers, transfer.request.url)
        return line.count
    }

    /// Handles the complete head of a final response. Returns whether the transfer continues.
    private func receivedHead(_ transfer: Transfer, _ handle: EasyHandle) -> Bool {
        if transfer.head.hasInvalidLength, !transfer.machine.rules.hasNoBody(transfer.head.status) {
            transfer.fail(EngineFailure.invalidLength)
            return false
        }
        if transfer.head.hasTransferCoding {
            transfer.fail(EngineFailure.transferCoding)
            return false
        }
        if transfer.head.status == 101, !transfer.machine.rules.upgrades {
            transfer.fail(EngineFailure.unaskedUpgrade)
            return false
        }
        if let use = transfer.addresses { noteResponse(to: transfer, use) }
        transfer.answersChallenge = transfer.machine.expectationFails(transfer.head.status)
        if transfer.answersChallenge { return false }
        if transfer.machine.rules.mayBeChallenged, !noteDigest(transfer, handle) { return false }
        let head = TransferMachine.Head(
            status: transfer.head.status, contentLength: transfer.head.contentLength, isCoded: transfer.head.isCoded,
            isFollowed: isFollowed(transfer))
        let action = transfer.machine.receivedHead(head, now)
        // The response to a challenge replaces the challenge, and its decoder.
        if transfer.machine.isDecoded || transfer.decoder != nil {
            transfer.decoder =
                transfer.machine.isDecoded
                ? BodyDecoder(
                    transfer.head.headers[values: "Content-Encoding"], configuration.contentCodings,
                    transfer.plan.dictionary) : nil
        }
        if transfer.head.mayHaveDigest || transfer.digest != nil { transfer.digest = digest(of: transfer) }
        if transfer.head.contentLength == nil || transfer.bodyEnd != nil { noteEnd(of: transfer, handle) }
        // libcurl stops sending by itself, but not while it waits for more bytes of the request body.
        if transfer.machine.stopsSending { mailbox.post(.update(transfer)) }
        if transfer.machine.isUpgraded { transfer.output?.open() }
        noteWhole(transfer)
        if transfer.isUploadingToStream, handle.offset(CURLINFO_SIZE_UPLOAD_T) != transfer.plan.body?.length {
            wakeSoon(transfer)
        }
        switch action {
        case .wait: return true
        case .answer: answerWithStream(transfer, handle)
        case .checkSilence(let time): idleWatch.note(time)
        case .bodyTooLarge:
            transfer.fail(.bodyTooLarge(limit: transfer.plan.maxBodySize))
            return false
        }
        return true
    }

    /// Compares the body with its digest; `nil` for a response that has none or no body, and for a challenge, which libcurl
    /// answers.
    private func digest(of transfer: Transfer) -> BodyDigest? {
        let (rules, head) = (transfer.machine.rules, transfer.head)
        let isChecked = transfer.plan.checksDigests && !transfer.machine.isUpgraded
        guard isChecked, !rules.hasNoBody(head.status), !rules.mayBeRetriedByLibcurl(head.status) else { return nil }
        return BodyDigest(head.headers, status: head.status, isDecoded: transfer.decoder != nil)
    }

    /// Notes a response that has arrived as a whole, by its length or its status, while the request may not have been sent
    /// (RFC 9113 §8.1). libcurl 7.88 reads nothing more of the stream then, also not the window of the upload, and a server of
    /// HTTP/1.1 may not read the rest.
    private func noteWhole(_ transfer: Transfer) {
        guard transfer.machine.rules.hasBody, !transfer.machine.isAnsweredEarly, !transfer.machine.isUpgraded,
            transfer.machine.drainsUntil == nil,
            !transfer.machine.rules.mayBeRetriedByLibcurl(transfer.head.status), transfer.hasWholeBody
        else { return }
        transfer.machine.isAnsweredEarly = true
        idleWatch.note(now + TransferMachine.uploadStall)
    }

    /// Finds out what will show the end of the body, if no field tells its length (RFC 9112 §6.3).
    private func noteEnd(of transfer: Transfer, _ handle: EasyHandle) {
        (transfer.bodyEnd, transfer.tls) = (nil, nil)
        let (head, rules) = (transfer.head, transfer.machine.rules)
        // A stream of HTTP/2 or HTTP/3 has an end of its own, and in clear text the end of the connection is that of the body
        // (RFC 9112 §8).
        guard head.contentLength == nil, !rules.hasNoBody(head.status), !transfer.machine.isUpgraded, !head.isChunked,
            head.version == .http1_0 || head.version == .http1_1,
            let tls = TLSHandshake.of(lat_openssl_connection(handle.curl))
        else { return }
        tls.isWithinRecord = false
        (transfer.bodyEnd, transfer.tls) = (BodyEnd(), tls)
    }

    /// Whether the head is a redirect that the caller follows (RFC 9110 §15.4).
    private func isFollowed(_ transfer: Transfer) -> Bool {
        switch transfer.head.status {
        case 301, 302, 303, 307, 308: break
        default: return false
        }
        guard let policy = configuration.redirects,
            (transfer.request.redirects == .automatic ? policy : transfer.request.redirects) != .none
        else { return false }
        return !(transfer.head.headers["Location"] ?? "").isEmpty
    }

    /// Answers the caller with a streamed response whose body is not complete yet, unless it has been answered.
    func answerWithStream(_ transfer: Transfer, _ handle: EasyHandle) {
        guard transfer.machine.answers() else { return }
        transfer.answer(.success(response(of: transfer, timings: handle.timings(of: transfer, isOver: false))))
    }

    func received(_ bytes: UnsafeRawBufferPointer, _ handle: EasyHandle) -> Int {
        guard let transfer = handle.transfer else { return 0 }
        transfer.tls?.isWithinRecord = false
        if let decoder = transfer.decoder { return received(bytes, decoder, transfer, handle) }
        if throttle?.allowsReceiving(transfer, now) == false { return Int(CURL_WRITEFUNC_PAUSE) }
        return take(bytes, transfer, handle, isReaderBehind: transfer.pipe?.pauseIfFull() ?? false)
    }

    /// Decodes what arrived, and takes the decoded bytes in pieces. When the reader is behind, the rest stays with libcurl
    /// in its coding, so a small body that becomes a large one takes no memory.
    private func received(
        _ bytes: UnsafeRawBufferPointer, _ decoder: BodyDecoder, _ transfer: Transfer, _ handle: EasyHandle
    ) -> Int {
        let repeated = min(decoder.repeatedByteCount, bytes.count)
        var input = UnsafeRawBufferPointer(rebasing: bytes.dropFirst(repeated))
        return withUnsafeTemporaryAllocation(byteCount: Self.decodedPiece, alignment: 16) { output in
            while true {
                if transfer.machine.waitsForReader(transfer.pipe?.pauseIfFull() ?? false)
                    || throttle?.allowsReceiving(transfer, now) == false
                {
                    decoder.repeatedByteCount += bytes.count - repeated - input.count
                    return Int(CURL_WRITEFUNC_PAUSE)
                }
                let before = input
                let count: Int
                do throws(CodingFault) {
                    count = try decoder.decode(&input, into: output)
                } catch {
                    return refuse(transfer, EngineFailure.undecodable(error, decoder))
                }
                transfer.digest?.update(UnsafeRawBufferPointer(rebasing: before.dropLast(input.count)))
                let piece = UnsafeRawBufferPointer(rebasing: output[..<count])
                guard count == 0 || take(piece, transfer, handle, isReaderBehind: false) == count else { return 0 }
                guard count == output.count else { break }
            }
            decoder.repeatedByteCount -= repeated
            noteWhole(transfer)
            return bytes.count
        }
    }

    private static let decodedPiece = 32 << 10

    /// Takes bytes of the body, as they are delivered. Returns how many, or libcurl's code to pause.
    @inline(__always)
    private func take(
        _ bytes: UnsafeRawBufferPointer, _ transfer: Transfer, _ handle: EasyHandle,
        isReaderBehind: @autoclosure () -> Bool
    ) -> Int {
        let action = transfer.machine.receivedBody(
            bytes.count, now, isReaderBehind: isReaderBehind(), coded: transfer.decoder?.sourceByteCount ?? .max)
        // libcurl delivers the bytes of a paused call again; they count then.
        if action != .pause { throttle?.received(bytes.count, transfer) }
        switch action {
        case .keep: break
        case .answerAndKeep: answerWithStream(transfer, handle)
        case .drop: return bytes.count
        // libcurl keeps these bytes and stops reading. Pausing later, outside the callback, would let a hundred buffers pass.
        case .pause: return Int(CURL_WRITEFUNC_PAUSE)
        case .refuse: return 0
        case .bodyTooLarge: return refuse(transfer, .bodyTooLarge(limit: transfer.plan.maxBodySize))
        case .decompressionBomb:
            return refuse(transfer, EngineFailure.decompressionBomb(ratio: transfer.plan.maxDecompressionRatio))
        }
        if let digest = transfer.digest {
            transfer.decoder == nil ? digest.update(bytes) : digest.updatePlain(bytes)
        }
        keep(bytes, transfer)
        if transfer.decoder == nil { noteWhole(transfer) }
        return bytes.count
    }

    /// Stops a transfer. Returns 0, the number of bytes taken, which makes libcurl end it.
    private func refuse(_ transfer: Transfer, _ error: NetworkError) -> Int {
        transfer.fail(error)
        return 0
    }

    private func keep(_ bytes: UnsafeRawBufferPointer, _ transfer: Transfer) {
        if transfer.machine.isStream {
            transfer.stream(mailbox).append(bytes)
            if !transfer.hasNewChunks {
                transfer.hasNewChunks = true
                pipesWithNewChunks.append(transfer)
            }
        } else if transfer.body.isEmpty,
            case let size = max(Int64(bytes.count), transfer.machine.announcedBodySize ?? 0),
            size > transfer.reservedBodySize
        {
            transfer.body = Data(bytes)
            if size > bytes.count { transfer.body.reserveCapacity(Int(min(size, Self.reserveLimit))) }
        } else {
            transfer.body.append(bytes.assumingMemoryBound(to: UInt8.self))
        }
    }

    /// Handles a live connection that libcurl no longer watches. For an upgraded connection this means that it is closed.
    func inputEnded(_ curl: UnsafeMutableRawPointer) {
        guard let transfer = EasyHandle.of(curl)?.transfer, transfer.machine.inputEnded() else { return }
        mailbox.post(.update(transfer))
    }

    func send(_ buffer: UnsafeMutableRawBufferPointer, from source: any BodySource, _ handle: EasyHandle) -> Int {
        guard let transfer = handle.transfer else { return Int(CURL_READFUNC_ABORT) }
        switch transfer.machine.sending {
        case .read where transfer.machine.mustRewind && rewind(source, handle) != CURL_SEEKFUNC_OK:
            return Int(CURL_READFUNC_ABORT)
        case .read: break
        case .end: return 0
        case .refuse: return Int(CURL_READFUNC_ABORT)
        }
        if throttle?.allowsSending(transfer, now) == false { return Int(CURL_READFUNC_PAUSE) }
        let piece =
            throttle.map { UnsafeMutableRawBufferPointer(rebasing: buffer.prefix($0.piece(transfer))) } ?? buffer
        switch source.read(into: piece) {
        case .bytes(let count):
            throttle?.sent(count, transfer)
            transfer.machine.sent(count, now)
            if transfer.wakeDelay > 0, transfer.machine.sourceBytes == source.length { wakeSoon(transfer) }
            return count
        case .end:
            if transfer.wakeDelay > 0 { wakeSoon(transfer) }
            return 0
        case .pause:
            transfer.machine.sendingPaused()
            return Int(CURL_READFUNC_PAUSE)
        case .failed(let error):
            transfer.fail(error)
            return Int(CURL_READFUNC_ABORT)
        }
    }

    func rewind(_ source: any BodySource, _ handle: EasyHandle) -> CInt {
        handle.transfer?.machine.rewound()
        if handle.transfer?.hasSentTrailers != true, source.rewind() { return CURL_SEEKFUNC_OK }
        handle.transfer?.fail(EngineFailure.notReplayable)
        return CURL_SEEKFUNC_FAIL
    }

    // MARK: Progress

    func progressed(download: (Int64, Int64), upload: (Int64, Int64), _ handle: EasyHandle) {
        guard let transfer = handle.transfer, let report = transfer.progress else { return }
        let (completed, total) = transfer.machine.rules.hasBody ? upload : download
        if let progress = transfer.machine.progressed(completed, of: total, now) { report(progress) }
    }

    func reportLastProgress(_ transfer: Transfer, _ handle: EasyHandle, isWhole: Bool) {
        guard let report = transfer.progress else { return }
        let completed = handle.offset(
            transfer.machine.rules.hasBody ? CURLINFO_SIZE_UPLOAD_T : CURLINFO_SIZE_DOWNLOAD_T)
        let progress = transfer.machine.progressEnded(
            completed, isWhole: isWhole, isCoded: transfer.head.isCoded, now)
        if let progress { report(progress) }
    }
}
