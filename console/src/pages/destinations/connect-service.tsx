import { Alert, Button, Group, Stack, Text } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { api, dataOf } from '../../api/client.ts';
import { useMay } from '../../frame/workspace.tsx';
import { callbackOf, openWindow } from '../../session/callback.ts';
import { ConfirmButton } from '../../shared/confirm-button.tsx';
import { ErrorAlert } from '../../shared/error-alert.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { type Destination, destinationPath, destinationQuery } from './queries.ts';

const PATH = '/api/v1/workspaces/{workspaceId}/destinations/{destinationId}/connection';

interface Props {
  readonly workspaceId: string;
  readonly destination: Destination;
}

/** Connects a destination with an account at its service; nothing for kinds that need none. */
export function ConnectService({ workspaceId, destination: given }: Props) {
  const queries = useQueryClient();
  const mayEdit = useMay('editor');
  const { id } = given;
  const query = useQuery({ ...destinationQuery(workspaceId, id), enabled: given.connection !== null });
  const { connection, paused_because } = query.data?.value ?? given;
  const params = destinationPath(workspaceId, id);
  const changed = () =>
    Promise.all(
      ['destination', 'destination-health', 'destinations'].map((key) =>
        queries.invalidateQueries({ queryKey: [key, workspaceId] }),
      ),
    );
  const connect = useMutation({
    mutationFn: async () => {
      const opened = openWindow();
      try {
        const begun = await dataOf(api.POST(PATH, { params, body: {} }));
        const untilExpired = AbortSignal.timeout(Math.max(0, Date.parse(begun.expires_at) - Date.now()));
        const answered = callbackOf(begun.state, untilExpired);
        opened.location = begun.authorize_url;
        const callback_url = await answered;
        return await dataOf(api.POST(`${PATH}/completion`, { params, body: { callback_url } }));
      } catch (error) {
        opened.close();
        throw error;
      }
    },
    onSettled: changed,
  });
  if (connection === null) return null;
  const { service, state, at, by } = connection;
  const isRefused = paused_because?.reason === 'access_refused';
  return (
    <Stack gap="xs" component="section" aria-label={`Connection with ${service}`}>
      {state === 'connected' ? (
        <Group gap="sm">
          <Text>
            Connected with {service}
            {at !== null && (
              <>
                {' since '}
                <Timestamp value={at} />
              </>
            )}
            .
          </Text>
          {mayEdit && (
            <>
              <Button variant="default" loading={connect.isPending} onClick={() => connect.mutate()}>
                Connect another account
              </Button>
              <ConfirmButton
                label="Disconnect"
                question={`Disconnect from ${service}?`}
                action={() => dataOf(api.DELETE(PATH, { params })).finally(changed)}
              >
                The tokens are removed, and revoked where {service} offers that. Deliveries wait until
                somebody connects it again.
              </ConfirmButton>
            </>
          )}
        </Group>
      ) : (
        <Alert
          color={isRefused ? 'red' : 'yellow'}
          title={
            isRefused ? `${service} does not accept the access any more` : `Not connected with ${service}`
          }
        >
          <Stack gap="sm" align="flex-start">
            <Text size="sm">
              {by === null
                ? `Sign in at ${service} and allow the access. Until then deliveries wait.`
                : `Deliveries wait. They go out by themselves once somebody has connected it again.`}
            </Text>
            {mayEdit && (
              <Button loading={connect.isPending} onClick={() => connect.mutate()}>
                Connect with {service}
              </Button>
            )}
          </Stack>
        </Alert>
      )}
      {connect.error !== null && <ErrorAlert error={connect.error} />}
    </Stack>
  );
}
