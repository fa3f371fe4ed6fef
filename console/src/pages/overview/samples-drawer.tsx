import { Drawer, List, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useEntityNames } from '../../shared/entity-names.ts';
import type { Environment } from '../../shared/event-fields.ts';
import { TextLink } from '../../shared/links.tsx';
import { QueryState } from '../../shared/query-state.tsx';
import { samplesQuery } from './overview-calls.ts';
import type { Measure, Range } from './search.ts';
import { MEASURE, reasonText } from './words.ts';

interface Props {
  readonly workspaceId: string;
  readonly environment: Environment | undefined;
  readonly range: Range;
  /** From the URL; undefined: closed. */
  readonly measure: Measure | undefined;
  readonly reason: string | undefined;
}

/** Some of the events behind a number, each with a link to its path. */
export function SamplesDrawer({ measure, reason, ...scope }: Props) {
  const navigate = useNavigate({ from: '/w/$workspaceId/overview' });
  const close = () =>
    void navigate({
      search: ({ measure: _measure, reason: _reason, ...kept }) => kept,
      resetScroll: false,
    });
  return (
    <Drawer
      opened={measure !== undefined}
      onClose={close}
      position="right"
      size="lg"
      title={measure === undefined ? 'Events' : `Events: ${MEASURE[measure]}`}
      closeButtonProps={{ 'aria-label': 'Close the events' }}
    >
      {measure !== undefined && <Samples {...scope} measure={measure} reason={reason} />}
    </Drawer>
  );
}

function Samples({
  workspaceId,
  environment,
  range,
  measure,
  reason,
}: Props & { readonly measure: Measure }) {
  const query = useQuery(samplesQuery({ workspaceId, environment }, range, measure, reason));
  const contracts = useEntityNames(workspaceId, 'contract', [reason?.split('/')[0]]);
  return (
    <Stack>
      {reason !== undefined && <Text>{reasonText(measure, reason, contracts)}</Text>}
      <QueryState query={query}>
        {({ message_ids }) =>
          message_ids.length === 0 ? (
            <Text c="dimmed">No examples of it are kept. Those of the last eight days are.</Text>
          ) : (
            <>
              <Text size="sm" c="dimmed">
                The newest that are kept: some of each hour, for eight days.
              </Text>
              <List spacing="xs" listStyleType="none">
                {message_ids.map((messageId) => (
                  <List.Item key={messageId}>
                    <TextLink
                      to="/w/$workspaceId/events/$messageId"
                      params={{ workspaceId, messageId }}
                      search={environment === undefined ? {} : { environment }}
                      ff="monospace"
                      size="sm"
                      style={{ overflowWrap: 'anywhere' }}
                    >
                      {messageId}
                    </TextLink>
                  </List.Item>
                ))}
              </List>
            </>
          )
        }
      </QueryState>
    </Stack>
  );
}
