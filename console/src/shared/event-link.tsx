import { useWorkspaceId } from '../frame/workspace.tsx';
import type { Environment } from './event-fields.ts';
import { TextLink } from './links.tsx';

interface Props {
  readonly messageId: string;
  readonly environment?: Environment;
  /** About when it was received: an old event with an id of the caller's own is found by it. */
  readonly around?: string;
}

/** Leads to the path of an event. */
export function EventLink({ messageId, environment, around }: Props) {
  return (
    <TextLink
      to="/w/$workspaceId/events/$messageId"
      params={{ workspaceId: useWorkspaceId(), messageId }}
      search={{ ...(environment && { environment }), ...(around && { around }) }}
      ff="monospace"
      size="sm"
      style={{ overflowWrap: 'anywhere' }}
    >
      {messageId}
    </TextLink>
  );
}
