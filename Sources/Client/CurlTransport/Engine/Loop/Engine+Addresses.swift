import CLibcurl
import Glibc
internal import HTTPCore
import Platform

/// What the choice among addresses knows of a transfer; only with a policy that chooses.
final class AddressUse {
    // Only the engine's thread uses it after the transfer was handed over.

    let policy: RequestOptions.Addresses
    /// The addresses that libcurl offers, while it is made to offer all.
    @exclusivity(unchecked) fileprivate var listing: [(address: SocketAddress, isAllowed: Bool)]?
    @exclusivity(unchecked) fileprivate var listings = 0
    /// The addresses that were tried for the connection.
    @exclusivity(unchecked) fileprivate var tried: [NameAddresses.Attempt] = []
    /// The address of the connection.
    @exclusivity(unchecked) fileprivate var used: SocketAddress?
    @exclusivity(unchecked) fileprivate var isNew = false
    @exclusivity(unchecked) fileprivate var hasResponse = false

    init(_ policy: RequestOptions.Addresses) { self.policy = policy }
}

// The choice among the addresses of a name (`RequestOptions.Addresses`).
//
// libcurl resolves the name, and calls back for each address that it is about to connect to, in its order. The callback may put
// another address in its place, so happy eyeballs, the connect timeout and the next address after a failure stay libcurl's. The
// first connection of a name does not know the list yet. It refuses all addresses, so that libcurl offers each of them, and is
// begun again: that takes no packet, and libcurl has the list in its cache.
extension Engine {
    /// How often a transfer may list the addresses of its name, whose resolver may change them each time.
    private static let listingLimit = 2

    /// As long as libcurl keeps the addresses.
    private var listLifetime: Duration { .seconds(wholeSeconds(configuration.dnsCacheLifetime)) }

    /// Puts the chosen address in place of the one that libcurl offers. Returns `false` if libcurl should go on to the next one.
    func choose(_ address: UnsafeMutablePointer<curl_sockaddr>, _ handle: EasyHandle) -> Bool {
        guard let transfer = handle.transfer, let use = transfer.addresses, let offered = SocketAddress(address) else {
            return true
        }
        let origin = transfer.target.origin
        if use.listing == nil, use.tried.isEmpty, use.listings < Self.listingLimit,
            names[origin]?.isCurrent(offered, lifetime: listLifetime, at: now) != true
        {
            use.listing = []
            use.listings += 1
        }
        if let listing = use.listing {
            if !listing.contains(where: { $0.address == offered }) {
                use.listing?.append((offered, mayConnect(to: address, handle)))
            }
            goingOn.append(transfer)
            return false
        }
        let isStream = address.pointee.socktype == CInt(SOCK_STREAM.rawValue)
        let chosen = names[origin]?.choose(
            use.policy, family: offered.family,
            tried: use.tried.filter { $0.isStream == isStream }.map(\.address),
            avoided: transfer.request.context.usedAddresses?.all ?? [], at: now)
        // Without a list that has the address, libcurl chooses.
        guard let chosen else {
            goingOn.append(transfer)
            return names[origin] == nil
        }
        use.tried.append(NameAddresses.Attempt(address: chosen, isStream: isStream))
        if let used = transfer.request.context.usedAddresses, let address = IPAddress(bytes: chosen.host) {
            used.insert(address.description)
        }
        chosen.write(to: address)
        return true
    }

    /// Begins a transfer again whose connection has only listed the addresses. Returns whether it did.
    func connectsAfterListing(
        _ transfer: Transfer, _ use: AddressUse, _ handle: EasyHandle, _ result: CURLcode
    ) -> Bool {
        guard let list = use.listing.take(), result != CURLE_OPERATION_TIMEDOUT, list.contains(where: \.isAllowed),
            let time = transfer.machine.listedAddresses(now)
        else { return false }
        if names.count >= Self.rememberedNames { forgetNames() }
        names[transfer.target.origin, default: NameAddresses()]
            .resolve(list, start: .random(in: 0..<(1 << 16)), at: now)
        transfer.socketRefusal = nil
        curl_multi_remove_handle(handle.multi, handle.curl)
        handle.prepareAfterListing(
            timeout: time.left, connectTimeout: max(1, transfer.plan.connectTimeout - time.passed))
        let code = curl_multi_add_handle(handle.multi, handle.curl)
        if code != CURLM_OK { over(transfer, .failure(EngineFailure.multi(code))) }
        return true
    }

    private static let rememberedNames = 1_024

    private func forgetNames() {
        NameAddresses.forget(&names, lifetime: listLifetime, at: now)
        noteCircuits()
    }

    /// Notes the address of the connection that carries a request.
    func noteConnection(
        of transfer: Transfer, _ use: AddressUse, _ handle: EasyHandle, to address: UnsafePointer<CChar>?
    ) {
        guard let address else { return }
        let origin = transfer.target.origin
        leave(use, origin)
        let text = String(cString: address)
        use.used = names[origin]?.begin(text)
        use.isNew = handle.long(CURLINFO_NUM_CONNECTS) > 0
        if let used = use.used {
            // A connection that was open already.
            transfer.request.context.usedAddresses?.insert(text)
            for address in NameAddresses.failed(before: used, of: use.tried) {
                fail(address, origin) { $0.connectionFailed(at: $1) }
            }
        }
        use.tried = []
        stopConnecting(transfer)
    }

    /// How often libcurl looks at a connection that is being made, in milliseconds.
    private static let goOnInterval: Int64 = 50

    func noteConnecting(_ transfer: Transfer) {
        connecting.insert(transfer)
        goOnDue = min(goOnDue, now + Self.goOnInterval)
    }

    private func stopConnecting(_ transfer: Transfer) {
        guard !connecting.isEmpty else { return }
        connecting.remove(transfer)
        if connecting.isEmpty { goOnDue = .distantFuture }
    }

    func goOnLater() {
        goingOn += connecting
        goOnDue = now + Self.goOnInterval
    }

    /// Has libcurl try the next addresses at once. Before 8.16 it looks at a connection whose address has failed only when a timer
    /// expires, which is after 200 ms, or half of the connect timeout; 7.88 does not tell that it closes the socket.
    func goOnConnecting() {
        let transfers = goingOn
        goingOn.removeAll(keepingCapacity: true)
        for case .some(let handle) in transfers.map(\.handle) {
            // It looks at a transfer whose pause has ended.
            _ = curl_easy_pause(handle.curl, CURLPAUSE_RECV)
            _ = curl_easy_pause(handle.curl, CURLPAUSE_CONT)
        }
    }

    /// Notes that a response has begun.
    func noteResponse(to transfer: Transfer, _ use: AddressUse) {
        guard !use.hasResponse, let used = use.used else { return }
        use.hasResponse = true
        let origin = transfer.target.origin
        let text = names[origin]?.update(used) { entry in
            entry.respondedAt = now
            return entry.circuit.responded(isNew: use.isNew) ? entry.text : nil
        }
        if let text { report(.closed, text, origin) }
    }

    /// Notes the end of a transfer. Returns the address of its connection if that is silent and no other request uses one to it.
    func noteEnd(
        of transfer: Transfer, _ use: AddressUse, _ result: Result<HTTPResponse, NetworkError>
    ) -> SocketAddress? {
        let (origin, used) = (transfer.target.origin, use.used)
        record(result, of: transfer, use)
        leave(use, origin)
        guard let used else { return nil }
        return names[origin]?.update(used) { $0.circuit.isSilent && $0.inFlight == 0 ? $0.address : nil }
    }

    private func record(_ result: Result<HTTPResponse, NetworkError>, of transfer: Transfer, _ use: AddressUse) {
        let origin = transfer.target.origin
        stopConnecting(transfer)
        switch result {
        case .success: noteResponse(to: transfer, use)
        case .failure(let error):
            guard !use.hasResponse, !transfer.head.hasBegun,
                error.kind.saysAddressFails(isConnected: use.used != nil)
            else { return }
            if let used = use.used {
                fail(used, origin) { $0.requestFailed(isNew: use.isNew, at: $1) }
            } else {
                for address in failedAddresses(transfer, use, error) {
                    fail(address, origin) { $0.connectionFailed(at: $1) }
                }
            }
        }
    }

    /// The addresses that a transfer without a connection has found to fail.
    private func failedAddresses(_ transfer: Transfer, _ use: AddressUse, _ error: NetworkError) -> [SocketAddress] {
        switch error.kind {
        case .connect, .timeout: return use.tried.map(\.address)
        default: break
        }
        // One of them was connected to, and failed in the handshake.
        let text = transfer.handle?.text(CURLINFO_PRIMARY_IP)
        let known = names[transfer.target.origin]?.entries.first { $0.text == text }?.address
        guard let last = known ?? use.tried.last?.address else { return [] }
        return NameAddresses.failed(before: last, of: use.tried) + [last]
    }

    private func leave(_ use: AddressUse, _ origin: String) {
        guard let used = use.used.take() else { return }
        _ = names[origin]?.update(used) { $0.inFlight = max(0, $0.inFlight - 1) }
    }

    /// Records a failure. If the address is left out from now on, its idle connections are not used either.
    private func fail(
        _ address: SocketAddress, _ origin: String, _ change: (inout AddressCircuit, MonotonicTime) -> Duration?
    ) {
        let opening = names[origin]?.update(address) { entry in
            change(&entry.circuit, now).map { (entry.text, $0) }
        }
        guard let (text, pause) = opening else { return }
        shutDownIdle(to: address)
        report(.opened(pause), text, origin)
    }

    private func report(_ report: CircuitReport, _ text: String, _ origin: String) {
        addressCircuits.report(report, of: "\(origin) \(text)")
        noteCircuits()
    }

    /// Applies what another process found out about an address.
    func adopt(_ report: CircuitReport, of circuit: String) {
        let parts = circuit.split(separator: " ")
        guard parts.count == 2, let change = names[String(parts[0])]?.adopt(report, of: parts[1], at: now),
            change.hasChanged
        else { return }
        if let address = change.leaves { shutDownIdle(to: address) }
        noteCircuits()
    }

    /// Shows the addresses that have failed to other threads.
    private func noteCircuits() {
        var all: [String: MonotonicTime] = [:]
        for (origin, name) in names {
            for entry in name.entries { all["\(origin) \(entry.text)"] = entry.circuit.leftOutUntil }
        }
        addressCircuits.set(all)
    }
}

extension SocketAddress {
    /// The address that libcurl is about to connect to; `nil` for a family other than IPv4 and IPv6.
    init?(_ address: UnsafePointer<curl_sockaddr>) {
        // libcurl's buffer holds any address; `curl_sockaddr` declares only its beginning.
        guard let offset = MemoryLayout<curl_sockaddr>.offset(of: \.addr) else { return nil }
        self.init((UnsafeRawPointer(address) + offset).assumingMemoryBound(to: sockaddr.self))
    }

    /// Puts the address in the place of one of the same family.
    fileprivate func write(to address: UnsafeMutablePointer<curl_sockaddr>) {
        guard let offset = MemoryLayout<curl_sockaddr>.offset(of: \.addr) else { return }
        copy(to: UnsafeMutableRawPointer(address) + offset)
    }
}

extension IPAddress {
    /// Makes the address that libcurl is about to connect to; `nil` for a family other than IPv4 and IPv6.
    init?(_ address: UnsafePointer<curl_sockaddr>) {
        guard let name = SocketAddress(address) else { return nil }
        self.init(bytes: name.host)
    }
}
