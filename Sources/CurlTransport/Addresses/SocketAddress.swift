import CLibcurl
import Glibc
import HTTPCore

/// The kernel's form of an address, read.
enum SocketAddress {
    /// The address that libcurl is about to connect to; `nil` for a family that is neither IPv4 nor IPv6.
    static func address(of address: UnsafePointer<curl_sockaddr>) -> IPAddress? {
        guard let offset = MemoryLayout<curl_sockaddr>.offset(of: \.addr) else { return nil }
        // libcurl's buffer is as long as any address; `curl_sockaddr` declares its beginning only.
        let start = UnsafeRawPointer(address) + offset
        switch address.pointee.family {
        case AF_INET where address.pointee.addrlen >= MemoryLayout<sockaddr_in>.size:
            return IPAddress(bytes: UnsafeRawBufferPointer(start: start + 4, count: 4))
        case AF_INET6 where address.pointee.addrlen >= MemoryLayout<sockaddr_in6>.size:
            return IPAddress(bytes: UnsafeRawBufferPointer(start: start + 8, count: 16))
        default:
            return nil
        }
    }
}
