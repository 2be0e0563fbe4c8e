package io.speck.mqtt.net;

import io.netty.resolver.AddressResolver;
import io.netty.resolver.AddressResolverGroup;
import io.netty.resolver.InetNameResolver;
import io.netty.util.concurrent.EventExecutor;
import io.netty.util.concurrent.Promise;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.List;

/**
 * Looks up host names in background threads. Netty's default does it in an event loop, which carries no message of any
 * connection meanwhile: where a site is cut off from its name server, that lasts for seconds, at each try to connect.
 */
final class HostNames extends AddressResolverGroup<InetSocketAddress> {
    static final HostNames LOOK_UPS = new HostNames();

    private HostNames() {}

    @Override
    protected AddressResolver<InetSocketAddress> newResolver(EventExecutor executor) {
        return new LookUp(executor).asAddressResolver();
    }

    private static final class LookUp extends InetNameResolver {
        LookUp(EventExecutor executor) {
            super(executor);
        }

        private interface Answer<T> {
            T get() throws UnknownHostException;
        }

        @Override
        protected void doResolve(String name, Promise<InetAddress> promise) {
            answer(promise, () -> InetAddress.getByName(name));
        }

        @Override
        protected void doResolveAll(String name, Promise<List<InetAddress>> promise) {
            answer(promise, () -> List.of(InetAddress.getAllByName(name)));
        }

        private static <T> void answer(Promise<T> promise, Answer<T> lookUp) {
            Runtime.BACKGROUND.execute(() -> {
                try {
                    promise.trySuccess(lookUp.get());
                } catch (UnknownHostException | RuntimeException e) {
                    promise.tryFailure(e);
                }
            });
        }
    }
}
