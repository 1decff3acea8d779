import CLibcurl
import Glibc
internal import HTTPCore
import Platform

/// The checked settings that all connections of an engine share, as libcurl options.
struct EngineOptions: Sendable {
    /// A libcurl option with its value and the name of its setting.
    struct Entry: Sendable {
        let setting: String
        let option: CURLoption
        let value: Value

        func set(on curl: UnsafeMutableRawPointer) -> CURLcode {
            switch value {
            case .text(let text): lat_setopt_string(curl, option, text)
            case .number(let number): lat_setopt_long(curl, option, number)
            }
        }
    }

    enum Value: Sendable {
        case text(String)
        case number(Int)
    }

    private(set) var entries: [Entry] = []

    init(_ configuration: EngineConfiguration) throws(NetworkError) {
        try addResolver(configuration)
        try addSource(configuration)
        if configuration.happyEyeballsDelay != EngineConfiguration.standardHappyEyeballsDelay {
            let delay = try RequestCheck.milliseconds(configuration.happyEyeballsDelay, "happyEyeballsDelay") ?? 1
            add("happyEyeballsDelay", CURLOPT_HAPPY_EYEBALLS_TIMEOUT_MS, .number(Int(min(delay, Int64(Int32.max)))))
        }
        try tryOut()
    }

    private mutating func add(_ setting: String, _ option: CURLoption, _ value: Value) {
        entries.append(Entry(setting: setting, option: option, value: value))
    }

    // MARK: Names

    private mutating func addResolver(_ configuration: EngineConfiguration) throws(NetworkError) {
        switch configuration.nameResolver {
        case .system: return
        case .servers(let servers):
            guard !servers.isEmpty else {
                throw .invalidRequest("nameResolver = .servers([]) names no server; give one, or use .system")
            }
            for server in servers where !Self.isServer(server) {
                throw .invalidRequest(
                    "nameResolver: \"\(server)\" is not the address of a DNS server; write 9.9.9.9, 192.0.2.1:5353 or "
                        + "[2620:fe::fe]")
            }
            guard GlobalCurl.hasAres else {
                throw NetworkError(
                    .unsupported,
                    message:
                        "nameResolver = .servers needs a libcurl that was built with c-ares (CURLOPT_DNS_SERVERS), "
                        + "and this one was not; use .https(url) or .system")
            }
            add("nameResolver", CURLOPT_DNS_SERVERS, .text(servers.joined(separator: ",")))
        case .https(let url):
            let target: Target
            do {
                target = try Target(url)
            } catch {
                throw .invalidRequest("nameResolver: \(error.message)")
            }
            guard target.isSecure else {
                throw .invalidRequest(
                    "nameResolver: \"\(URLParts.redacted(url))\" is not an https URL; DNS over HTTPS needs one")
            }
            let pins = Dictionary(configuration.tls.pins.map { ($0.lowercased(), $1) }) { $1 }
            guard TLSMaterial.pins(forHost: target.host, in: pins) == nil else {
                throw NetworkError(
                    .unsupported,
                    message:
                        "tls.pins has keys for \(target.host), the host of nameResolver, whose connections libcurl makes "
                        + "without pins; remove them, or use another resolver")
            }
            add("nameResolver", CURLOPT_DOH_URL, .text(target.url))
            if !configuration.tls.verifiesCertificates {
                add("nameResolver", CURLOPT_DOH_SSL_VERIFYPEER, .number(0))
                add("nameResolver", CURLOPT_DOH_SSL_VERIFYHOST, .number(0))
            }
        }
    }

    /// Whether a text is an address, with or without a port.
    private static func isServer(_ text: String) -> Bool {
        if IPAddress(text) != nil { return true }
        let (host, port): (Substring, Substring?)
        if text.hasPrefix("["), let end = text.firstIndex(of: "]") {
            let rest = text[text.index(after: end)...]
            guard rest.isEmpty || rest.hasPrefix(":") else { return false }
            (host, port) = (text[text.index(after: text.startIndex)..<end], rest.isEmpty ? nil : rest.dropFirst())
        } else if let colon = text.firstIndex(of: ":") {
            (host, port) = (text[..<colon], text[text.index(after: colon)...])
        } else {
            return false
        }
        return IPAddress(String(host)) != nil && port.map { (UInt16($0) ?? 0) > 0 } ?? true
    }

    // MARK: Local addresses

    private mutating func addSource(_ configuration: EngineConfiguration) throws(NetworkError) {
        switch configuration.connectionSource {
        case nil: break
        case .interface(let name):
            guard !name.isEmpty, !name.utf8.contains(0), if_nametoindex(name) != 0 else {
                throw .invalidRequest(
                    "connectionSource: this machine has no network interface \"\(name)\", only "
                        + "\(Self.interfaceNames.joined(separator: ", "))")
            }
            add("connectionSource", CURLOPT_INTERFACE, .text("if!\(name)"))
        case .address(let text):
            guard let address = IPAddress(text) else {
                throw .invalidRequest(
                    "connectionSource: \"\(text)\" is not an IP address; write 192.0.2.7, or use .interface(name)")
            }
            guard Self.canBind(to: address) else {
                throw .invalidRequest(
                    "connectionSource: \(address) is not an address of this machine (\(SystemError().text)); give one that `ip address` shows"
                )
            }
            add("connectionSource", CURLOPT_INTERFACE, .text("host!\(address)"))
        }
        if let ports = configuration.localPorts {
            guard ports.lowerBound > 0, ports.upperBound <= 65_535 else {
                throw .invalidRequest(
                    "localPorts is \(ports.lowerBound)...\(ports.upperBound); give ports from 1 to 65535")
            }
            add("localPorts", CURLOPT_LOCALPORT, .number(ports.lowerBound))
            add("localPorts", CURLOPT_LOCALPORTRANGE, .number(ports.count))
        }
        if configuration.connectionSource != nil || configuration.localPorts != nil, configuration.unixSocketPath != nil
        {
            throw .invalidRequest(
                "connectionSource and localPorts do not apply to a Unix domain socket; remove them or unixSocketPath"
            )
        }
    }

    private static var interfaceNames: [String] {
        guard let list = if_nameindex() else { return [] }
        defer { if_freenameindex(list) }
        var names: [String] = []
        var next = list
        while let name = next.pointee.if_name {
            names.append(String(cString: name))
            next += 1
        }
        return names
    }

    /// Whether this machine has the address. If not, `errno` says why.
    private static func canBind(to address: IPAddress) -> Bool {
        guard let name = SocketAddress(host: address.bytes) else { return false }
        let descriptor = socket(name.family, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        let isBound = name.call(bind, descriptor)
        let reason = errno
        close(descriptor)
        errno = reason
        return isBound
    }

    // MARK: libcurl

    /// Sets all options on a temporary handle, so that making the engine fails if libcurl refuses one.
    private func tryOut() throws(NetworkError) {
        guard !entries.isEmpty else { return }
        guard let curl = curl_easy_init() else { throw EngineFailure.noResources("memory for a libcurl handle") }
        defer { curl_easy_cleanup(curl) }
        for entry in entries {
            let code = entry.set(on: curl)
            guard code != CURLE_OK else { continue }
            let refusal = EngineFailure.refusedOption(entry.option, code)
            throw NetworkError(
                refusal.kind, message: "\(entry.setting) cannot be used: \(refusal.message)",
                curlCode: Int(code.rawValue))
        }
    }
}
