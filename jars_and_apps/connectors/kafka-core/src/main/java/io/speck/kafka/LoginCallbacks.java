package io.speck.kafka;

import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Login;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.callback.PasswordCallback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;

/** Answers a client with user name and password, which are read for each connection; created by the client. */
public final class LoginCallbacks implements AuthenticateCallbackHandler {
    private Login login;

    @Override
    public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
        login = (Login) configs.get(Security.LOGIN);
    }

    @Override
    public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
        for (Callback each : callbacks) {
            if (each instanceof NameCallback name) {
                name.setName(login.username());
            } else if (each instanceof PasswordCallback password) {
                password.setPassword(secret());
            } else {
                throw new UnsupportedCallbackException(each);
            }
        }
    }

    private char[] secret() throws IOException {
        try {
            return new String(login.password(), StandardCharsets.UTF_8).toCharArray();
        } catch (BrokerException e) { // the thread of the client's connections must not end by it
            throw new IOException(e.getMessage(), e);
        }
    }

    @Override
    public void close() {}
}
