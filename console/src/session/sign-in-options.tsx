import { Alert, Button, Code, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { ErrorAlert } from '../shared/error-alert.tsx';
import { QueryState } from '../shared/query-state.tsx';
import { signInByLink } from './development-link.ts';
import { type Issuer, issuerLabel, readServerConfig } from './server-config.ts';
import { signedIn } from './session.ts';

/** Every way to sign in at this gateway. */
export function SignInOptions() {
  const query = useQuery({ queryKey: ['server-config'], queryFn: readServerConfig, staleTime: Infinity });
  return (
    <QueryState query={query} rows={2}>
      {({ issuers, hasDevelopmentLink }) => (
        <Stack>
          {issuers.map((issuer) => (
            <IssuerButton key={issuer.issuer} issuer={issuer} label={issuerLabel(issuer, issuers)} />
          ))}
          {hasDevelopmentLink && <LinkHint />}
          {issuers.length === 0 && !hasDevelopmentLink && (
            <Alert title="Nobody can sign in here">
              This server takes API keys alone. Its operator names the issuers that people sign in with in{' '}
              <Code>TRIBUTARY_ISSUERS</Code>.
            </Alert>
          )}
        </Stack>
      )}
    </QueryState>
  );
}

/** Wraps names of hosts that are longer than a narrow screen. */
const LABEL = { whiteSpace: 'normal', overflowWrap: 'anywhere' } as const;

function IssuerButton({ issuer, label }: { readonly issuer: Issuer; readonly label: string }) {
  const [isWaiting, setWaiting] = useState(false);
  const [error, setError] = useState<unknown>();
  const attempt = useRef<AbortController>(undefined);
  useEffect(() => {
    void import('./oidc.ts'); // loaded before the click: a window must open while the click is handled
    return () => attempt.current?.abort();
  }, []);

  async function signIn(): Promise<void> {
    attempt.current?.abort();
    attempt.current = new AbortController();
    const { signal } = attempt.current;
    setWaiting(true);
    setError(undefined);
    try {
      const { OidcSignIn } = await import('./oidc.ts');
      const { credentials, source } = await new OidcSignIn(issuer).inWindow(signal);
      signedIn(credentials, source);
    } catch (cause) {
      if (signal.aborted) return;
      setWaiting(false);
      setError(cause);
    }
  }

  return (
    <>
      <Button size="md" h="auto" py="xs" styles={{ label: LABEL }} onClick={() => void signIn()}>
        {isWaiting ? `Open the window of ${label} again` : `Sign in with ${label}`}
      </Button>
      {isWaiting && (
        <Text size="sm" c="dimmed" role="status">
          Continue in the window that opened.
        </Text>
      )}
      {error !== undefined && <ErrorAlert error={error} />}
    </>
  );
}

/** Signs this tab in when it gets the focus, after another tab of this browser has opened the link. */
function LinkHint() {
  useEffect(() => {
    const retry = () => void signInByLink().catch(() => false);
    window.addEventListener('focus', retry);
    return () => window.removeEventListener('focus', retry);
  }, []);
  return (
    <Stack gap="xs">
      <Text>
        Open the link that <Code>npm start</Code> printed, in this browser. It is good once; a new start of
        the server prints a new one.
      </Text>
      <Button variant="default" onClick={() => void signInByLink().catch(() => false)}>
        I have opened it
      </Button>
    </Stack>
  );
}
