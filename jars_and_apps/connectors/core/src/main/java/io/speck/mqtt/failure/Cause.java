package io.speck.mqtt.failure;

/** The cause of an error that came while a job's code worked on a message. */
public enum Cause {
    /** Another one than the message, or an unknown one: an engine, a broker, the network, a disk, a lack of memory. */
    ELSEWHERE,
    /** The job's code raised an error of a class that a message may raise, and so may a service that is away. */
    CODE,
    /** The message: the error is of a class that only data raise. */
    MESSAGE
}
