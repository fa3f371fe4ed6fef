import { Page } from '../../shared/page.tsx';

export function OrganizationPage() {
  return <Page title="Organization">{null}</Page>;
}
