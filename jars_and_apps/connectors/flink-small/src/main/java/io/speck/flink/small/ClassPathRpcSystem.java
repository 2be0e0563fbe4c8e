package io.speck.flink.small;

import java.util.ServiceLoader;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.rpc.RpcSystem;
import org.apache.flink.runtime.rpc.RpcSystemLoader;
import org.apache.flink.runtime.rpc.exceptions.RpcLoaderException;

/**
 * Takes Flink's RPC system from the class path if it is there ({@code flink-rpc-akka.jar}, which {@code flink-dist}
 * contains as a file).
 *
 * <p>Flink's own loader, which is used otherwise, copies that jar of 24 MB to the disk at each start and loads its
 * classes by a class loader of their own, which no class archive can cover.
 */
public final class ClassPathRpcSystem implements RpcSystemLoader {
    @Override
    public int getLoadPriority() {
        return -1; // before Flink's own loader, which has 0
    }

    @Override
    public RpcSystem loadRpcSystem(Configuration configuration) {
        return ServiceLoader.load(RpcSystem.class, RpcSystem.class.getClassLoader()).findFirst()
                .orElseThrow(() -> new RpcLoaderException("no RPC system is on the class path"));
    }
}
