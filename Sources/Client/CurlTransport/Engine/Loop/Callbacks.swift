import CLibcurl
import Glibc
import Platform

// The C functions that libcurl calls, all on the engine's thread. Each finds
// its object by the context pointer and forwards the call.

let writeCallback: curl_write_callback = { bytes, size, count, context in
    guard let bytes, let context else { return 0 }
    let handle = EasyHandle.from(context)
    return handle.engine.received(UnsafeRawBufferPointer(start: bytes, count: size * count), handle)
}

let headerCallback: curl_write_callback = { bytes, size, count, context in
    guard let bytes, let context else { return 0 }
    let handle = EasyHandle.from(context)
    let line = UnsafeRawBufferPointer(start: bytes, count: size * count).assumingMemoryBound(to: UInt8.self)
    return handle.engine.receivedHeaderLine(line, handle)
}

let readCallback: curl_read_callback = { bytes, size, count, context in
    guard let bytes, let context else { return Int(CURL_READFUNC_ABORT) }
    let handle = EasyHandle.from(context)
    guard case .source(let source) = handle.transfer?.plan.body else { return 0 }
    return handle.engine.send(UnsafeMutableRawBufferPointer(start: bytes, count: size * count), from: source, handle)
}

let seekCallback: curl_seek_callback = { context, offset, origin in
    guard let context, offset == 0, origin == SEEK_SET else { return CURL_SEEKFUNC_CANTSEEK }
    let handle = EasyHandle.from(context)
    guard case .source(let source) = handle.transfer?.plan.body else { return CURL_SEEKFUNC_FAIL }
    return handle.engine.rewind(source, handle)
}

let mimeReadCallback: curl_read_callback = { bytes, size, count, context in
    guard let bytes, let context else { return Int(CURL_READFUNC_ABORT) }
    let reader = MIMEReader.from(context)
    let buffer = UnsafeMutableRawBufferPointer(start: bytes, count: size * count)
    return reader.handle.engine.send(buffer, from: reader.source, reader.handle)
}

let mimeSeekCallback: curl_seek_callback = { context, offset, origin in
    guard let context, offset == 0, origin == SEEK_SET else { return CURL_SEEKFUNC_CANTSEEK }
    let reader = MIMEReader.from(context)
    return reader.handle.engine.rewind(reader.source, reader.handle)
}

let mimeFreeCallback: curl_free_callback = { context in
    guard let context else { return }
    Unmanaged<MIMEReader>.fromOpaque(context).release()
}

let progressCallback: curl_xferinfo_callback = { context, downloadTotal, download, uploadTotal, upload in
    guard let context else { return 0 }
    let handle = EasyHandle.from(context)
    handle.engine.progressed(
        download: (Int64(download), Int64(downloadTotal)), upload: (Int64(upload), Int64(uploadTotal)), handle)
    return 0
}

let prereqCallback: curl_prereq_callback = { context, address, _, _, _ in
    guard let context else { return CURL_PREREQFUNC_ABORT }
    let handle = EasyHandle.from(context)
    handle.opensTunnel = false
    return handle.engine.connectionIsReady(handle, address: address) ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
}

let openSocketCallback: curl_opensocket_callback = { context, _, address in
    guard let context, let address else { return CURL_SOCKET_BAD }
    let handle = EasyHandle.from(context)
    guard handle.engine.mayConnect(to: address, handle) else { return CURL_SOCKET_BAD }
    handle.hasProxyHandshake = false
    (handle.opensTunnel, handle.hasInterimAnswer) = (true, false)
    let kind = address.pointee.socktype | CInt(SOCK_CLOEXEC.rawValue)
    let descriptor = socket(address.pointee.family, kind, address.pointee.protocol)
    guard descriptor >= 0 else {
        let error = SystemError()
        if error.isFileLimit { handle.transfer?.socketRefusal = EngineFailure.noDescriptor(error, for: "socket") }
        return CURL_SOCKET_BAD
    }
    handle.engine.opened(descriptor, handle)
    return descriptor
}

let closeSocketCallback: curl_closesocket_callback = { context, descriptor in
    if let context { Engine.from(context).sockets.closed(descriptor) }
    return close(descriptor)
}

let socketCallback: curl_socket_callback = { _, descriptor, what, context, _ in
    guard let context else { return 0 }
    Engine.from(context).sockets.watch(descriptor, what)
    return 0
}

let timerCallback: curl_multi_timer_callback = { _, milliseconds, context in
    guard let context else { return 0 }
    Engine.from(context).setTimer(milliseconds: milliseconds)
    return 0
}
