import CLibcurl
import CLinux
import Glibc
import Platform

/// Receives the kernel's messages about links, addresses and routes (rtnetlink(7)).
final class NetworkWatch {
    private(set) var descriptor: CInt
    private var changes = NetworkChanges()
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 32_768, alignment: 8)

    /// Opens the socket; `nil` where the system refuses it, as some sandboxes do.
    init?() {
        descriptor = lat_netlink_open()
        guard descriptor >= 0 else { return nil }
    }

    deinit {
        end()
        buffer.deallocate()
    }

    func end() {
        if descriptor >= 0 { close(descriptor) }
        descriptor = -1
    }

    /// Reads all pending messages. Returns whether any of them is a change.
    func takeChanges() -> Bool {
        var isChange = false
        while true {
            let count = recv(descriptor, buffer.baseAddress, buffer.count, CInt(MSG_DONTWAIT))
            if count < 0, errno == EINTR { continue }
            // The kernel dropped messages, so there were many changes.
            if count < 0, errno == ENOBUFS {
                isChange = true
                continue
            }
            guard count > 0 else { return isChange }
            if changes.note(UnsafeRawBufferPointer(rebasing: buffer[..<count])) { isChange = true }
        }
    }
}

/// Distinguishes changes from repetitions in rtnetlink's messages. The kernel also reports unchanged state: an address whose
/// lifetime a router advertisement renews, or a wireless link's state.
struct NetworkChanges {
    /// The relevant flags of each link, by its index.
    private var links: [Int32: UInt32] = [:]
    private var addresses: Set<[UInt8]> = []

    /// Reads messages. Returns whether any of them is a change.
    mutating func note(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var isChange = false
        var offset = 0
        let headerSize = MemoryLayout<nlmsghdr>.size
        while offset + headerSize <= bytes.count {
            let header = bytes.loadUnaligned(fromByteOffset: offset, as: nlmsghdr.self)
            let length = Int(header.nlmsg_len)
            guard length >= headerSize, offset + length <= bytes.count else { break }
            let payload = UnsafeRawBufferPointer(rebasing: bytes[(offset + headerSize)..<(offset + length)])
            if note(Int(header.nlmsg_type), payload) { isChange = true }
            offset += (length + 3) & ~3
        }
        return isChange
    }

    private mutating func note(_ type: Int, _ payload: UnsafeRawBufferPointer) -> Bool {
        switch type {
        case Int(RTM_NEWLINK), Int(RTM_DELLINK):
            guard let link = Self.load(ifinfomsg.self, payload) else { return false }
            let flags = type == Int(RTM_DELLINK) ? nil : link.ifi_flags & lat_link_flags
            let before = links.updateValue(flags ?? 0, forKey: link.ifi_index)
            if flags == nil { links[link.ifi_index] = nil }
            // The first message about a link may be a repetition, but one unnecessary check costs little.
            return before != flags
        case Int(RTM_NEWADDR):
            return addresses.insert(Self.key(ofAddress: payload)).inserted
        case Int(RTM_DELADDR):
            addresses.remove(Self.key(ofAddress: payload))
            return true
        case Int(RTM_NEWROUTE), Int(RTM_DELROUTE):
            guard let route = Self.load(rtmsg.self, payload) else { return false }
            // The kernel itself clones routes for its cache; those are not changes.
            return route.rtm_flags & UInt32(RTM_F_CLONED) == 0
        default:
            return false
        }
    }

    private static func load<Message>(_ type: Message.Type, _ payload: UnsafeRawBufferPointer) -> Message? {
        guard payload.count >= MemoryLayout<Message>.size else { return nil }
        return payload.loadUnaligned(as: type)
    }

    /// The link and the address, without the lifetimes that follow.
    private static func key(ofAddress payload: UnsafeRawBufferPointer) -> [UInt8] {
        guard let message = load(ifaddrmsg.self, payload) else { return Array(payload) }
        var key = withUnsafeBytes(of: message.ifa_index) { Array($0) } + [message.ifa_prefixlen]
        var offset = MemoryLayout<ifaddrmsg>.size
        let headSize = MemoryLayout<rtattr>.size
        while offset + headSize <= payload.count {
            let head = payload.loadUnaligned(fromByteOffset: offset, as: rtattr.self)
            let length = Int(head.rta_len)
            guard length >= headSize, offset + length <= payload.count else { break }
            if [Int(IFA_ADDRESS), Int(IFA_LOCAL)].contains(Int(head.rta_type)) {
                key.append(UInt8(truncatingIfNeeded: head.rta_type))
                key += payload[(offset + headSize)..<(offset + length)]
            }
            offset += (length + 3) & ~3
        }
        return key
    }
}

/// Decides when to check for transfers that have been silent for too long.
///
/// Each transfer records only its first deadline. At that time one check goes
/// through all running transfers and sets the time of the next check. So
/// thousands of waiting transfers cost only an occasional check.
struct IdleWatch {
    /// The time of the next check.
    private(set) var next = MonotonicTime.distantFuture
    private var soonest = MonotonicTime(nanoseconds: 0)

    /// Records a time at which a transfer may have been silent for too long.
    mutating func note(_ deadline: MonotonicTime) { next = min(next, deadline) }

    func isDue(_ now: MonotonicTime) -> Bool { now >= next }

    /// Begins a check, in which every transfer that continues records its next deadline. To stay cheap, checks are at
    /// least 1 ms apart for every 50 running transfers.
    mutating func begin(_ now: MonotonicTime, runningCount: Int) {
        next = .distantFuture
        soonest = now + Int64(max(1, runningCount / 50))
    }

    mutating func commit() { next = max(next, soonest) }
}

extension Engine {
    /// Has libcurl look at a transfer again and again, soon and then less and less often: 7.88 may read the end of a stream of
    /// HTTP/2 before the upload is over, and does not look at it again by itself when it is.
    func wakeSoon(_ transfer: Transfer) {
        transfer.wakeDelay = 1
        idleWatch.note(now + transfer.wakeDelay)
    }

    private func wake(_ transfer: Transfer) {
        transfer.wakeDelay = min(transfer.wakeDelay * 2, TransferMachine.uploadStall)
        idleWatch.note(now + transfer.wakeDelay)
        guard transfer.machine.pause == .none, !transfer.isThrottled else { return }
        apply(.receiving, to: transfer)
        apply(.none, to: transfer)
    }

    /// Checks all running transfers, and ends those that have been silent for too long.
    func checkIdleTransfers() {
        idleWatch.begin(now, runningCount: runningCount)
        for handle in handles.all {
            guard let transfer = handle.transfer else { continue }
            if transfer.machine.isAnsweredEarly {
                let left = handle.offset(CURLINFO_SIZE_UPLOAD_T) - Int64(sockets.unsentBytes(port: handle.localPort))
                if let time = transfer.machine.checkUpload(left, now) {
                    idleWatch.note(time)
                } else {
                    handle.isSpent = true
                    conclude(transfer, handle, CURLE_OK)
                    continue
                }
            }
            if transfer.wakeDelay > 0 {
                wake(transfer)
                guard handle.transfer === transfer else { continue }
            }
            switch transfer.machine.checkSilence(now, isThrottled: transfer.isThrottled) {
            case .never: break
            case .again(let time): idleWatch.note(time)
            case .answer:
                answerWithStream(transfer, handle)
                switch transfer.machine.checkSilence(now) {
                case .never: break
                case .again(let time): idleWatch.note(time)
                // A stream may have been silent for long already; the next check ends it.
                case .answer, .silent: idleWatch.note(now)
                }
            case .silent(let mayBeInKernel):
                let unsent = mayBeInKernel ? sockets.unsentBytes(port: handle.localPort) : nil
                if let time = transfer.machine.checkedBuffer(unsent: unsent, now) {
                    idleWatch.note(time)
                } else {
                    end(transfer, EngineFailure.idle(transfer, timings: handle.timings(of: transfer, isOver: true)))
                }
            }
        }
        idleWatch.commit()
    }
}
