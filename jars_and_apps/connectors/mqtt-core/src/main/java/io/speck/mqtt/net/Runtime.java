package io.speck.mqtt.net;

import io.netty.buffer.ByteBufAllocator;
import io.netty.buffer.PooledByteBufAllocator;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.util.concurrent.DefaultThreadFactory;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Threads and buffers that all connections of a process share, so that a further connection costs little. */
public final class Runtime {
    private static final int EVENT_LOOPS = 2;
    private static final int PAGE = 8192;
    private static final int CHUNK_ORDER = 6;
    private static final long STOP_SECONDS = 2;

    /**
     * Netty registers its flight recorder events with the JDK permanently, which would keep the class loader of an
     * ended job in memory with all its classes; nor is its default allocator used here. In the connectors' jars netty
     * is shaded into a package of theirs, and the names of these properties with it.
     */
    static {
        System.setProperty("io.netty.jfr.enabled", "false");
        System.setProperty("io.netty.allocator.type", "pooled");
    }

    private static final LoopThreads THREADS = new LoopThreads();

    public static final EventLoopGroup LOOPS =
            new MultiThreadIoEventLoopGroup(EVENT_LOOPS, THREADS, NioIoHandler.newFactory());

    public static final EventLoopCost LOOP_COST = new EventLoopCost(System::nanoTime, THREADS::processorNanos);

    /** Small arenas: netty's own defaults would take megabytes for each thread. */
    public static final ByteBufAllocator BUFFERS =
            new PooledByteBufAllocator(true, 0, EVENT_LOOPS, PAGE, CHUNK_ORDER, 64, 32, false);

    /** Threads for blocking work (reconnecting, reading the fence); an idle one ends after ten seconds. */
    public static final ExecutorService BACKGROUND = new ThreadPoolExecutor(
            0, Integer.MAX_VALUE, 10, TimeUnit.SECONDS, new SynchronousQueue<>(),
            new DefaultThreadFactory("mqtt-connect", true));

    private static final List<Runnable> STOP_HOOKS = new CopyOnWriteArrayList<>();

    private Runtime() {}

    /** Registers an action that {@link #stop} runs first, while connections and threads still work. */
    public static void beforeStop(Runnable action) {
        STOP_HOOKS.add(action);
    }

    /**
     * Ends all connections and threads permanently. Only for a caller that loaded this library with a class loader of
     * its own and is about to drop it: a remaining thread would keep all its classes in memory.
     */
    public static void stop() {
        STOP_HOOKS.forEach(Runnable::run);
        BACKGROUND.shutdownNow();
        LOOPS.shutdownGracefully(0, STOP_SECONDS, TimeUnit.SECONDS).awaitUninterruptibly(STOP_SECONDS, TimeUnit.SECONDS);
    }
}
